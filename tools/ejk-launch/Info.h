//===- Info.h - what a package holds, for people ----------------*- C++ -*-===//

#ifndef EJK_TOOLS_EJKLAUNCH_INFO_H
#define EJK_TOOLS_EJKLAUNCH_INFO_H

#include "package/Package.h"

namespace ejk {

std::string describePackage(const Package &package);

} // namespace ejk

#endif // EJK_TOOLS_EJKLAUNCH_INFO_H
