//===- RunFunction.h - ejk-run as a function --------------------*- C++ -*-===//
#ifndef EJK_TOOLS_EJK_RUN_RUN_FUNCTION_H
#define EJK_TOOLS_EJK_RUN_RUN_FUNCTION_H

/// The program, which has a main of its own in build/bin, and is a function of the compiler's
/// library in a wheel.
int ejkRun(int argc, char **argv);

#endif
