// SPDX-License-Identifier: Apache-2.0
// Reads SDF files as Gazebo does; prints every error and warning, and fails if there is one.
#include <iostream>

#include <sdf/sdf.hh>

int main(int argc, char **argv)
{
  bool isGood = argc > 1;
  for (int i = 1; i < argc; ++i)
  {
    sdf::ParserConfig config = sdf::ParserConfig::GlobalConfig();
    config.SetWarningsPolicy(sdf::EnforcementPolicy::ERR);
    config.SetUnrecognizedElementsPolicy(sdf::EnforcementPolicy::ERR);
    sdf::Root root;
    for (const auto &error : root.Load(argv[i], config))
    {
      std::cout << argv[i] << ": " << error.Message() << "\n";
      isGood = false;
    }
  }
  return isGood ? 0 : 1;
}
