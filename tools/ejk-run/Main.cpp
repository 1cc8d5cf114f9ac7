//===- Main.cpp - ejk-run as a program ------------------------------------===//
#include "RunFunction.h"

int main(int argc, char **argv) { return ejkRun(argc, argv); }
