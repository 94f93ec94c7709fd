# SPDX-License-Identifier: MIT
#
# Rules for `cmake --install` and find_package(ddp CONFIG).

get_property(libraries GLOBAL PROPERTY DDP_LIBRARIES)
set(components "")  # components of find_package: ddp, samplers, ...
foreach(library IN LISTS libraries)
  get_target_property(name ${library} EXPORT_NAME)
  list(APPEND components ${name})
endforeach()

install(TARGETS ${libraries} EXPORT ddpTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS ddp-launch ddp-prove RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# This header needs LibTorch when it is used, but not when it is installed.
install(FILES examples/libtorch/ddp_torch.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# CMAKE_INSTALL_DOCDIR may be that of a project around this one.
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/ddp)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ddp)
install(EXPORT ddpTargets NAMESPACE ddp:: DESTINATION ${config_dir})
configure_package_config_file(cmake/ddpConfig.cmake.in ddpConfig.cmake
  INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(ddpConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ddpConfig.cmake ${PROJECT_BINARY_DIR}/ddpConfigVersion.cmake
  DESTINATION ${config_dir})
