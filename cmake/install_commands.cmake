# SPDX-License-Identifier: Apache-2.0
# Commands: bin/llm-planner, and the nodes where `ros2 run` and launch files look for them.

# Installs an executable that calls `function` of the Python module `module`.
function(install_command name module function destination)
  set(script "${CMAKE_CURRENT_BINARY_DIR}/commands/${name}")
  configure_file("${CMAKE_CURRENT_SOURCE_DIR}/cmake/command.in" "${script}" @ONLY)
  install(PROGRAMS "${script}" DESTINATION "${destination}")
endfunction()

function(install_commands)
  install_command(llm-planner llm_planner.cli.main main bin)
  install_command(planner_node llm_planner.ros.planner_node main lib/${PROJECT_NAME})
  install_command(robot_node llm_planner.ros.robot_node main lib/${PROJECT_NAME})
  install_command(dashboard_node llm_planner.ros.dashboard_node main lib/${PROJECT_NAME})
  install_command(world_node llm_planner.ros.world_node main lib/${PROJECT_NAME})
  install_command(recorder_node llm_planner.ros.recorder_node main lib/${PROJECT_NAME})
endfunction()
