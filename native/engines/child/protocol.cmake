# What the addon and mooncake-kv-engine say to each other gets its number from the sources that decide it: every type that a message may
# hold lies in a header of core/ or engines/, and engines/child/ writes and reads them. So the number changes with the messages and
# nobody has to think of it; a change that leaves them alone costs two builds that might have understood each other.
file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}
  core/*.h engines/*.h engines/child/*.h engines/child/*.cc)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources})
set(digests "")
foreach(source ${sources})
  file(SHA256 ${CMAKE_CURRENT_SOURCE_DIR}/${source} digest)
  string(APPEND digests "${source} ${digest}\n")
endforeach()
string(SHA256 digest "${digests}")
string(SUBSTRING "${digest}" 0 8 MOONCAKE_KV_CHILD_PROTOCOL)
# Written only when it is another one.
configure_file(engines/child/protocol.h.in generated/engines/child/protocol.h @ONLY)
target_include_directories(mooncake-kv-core PUBLIC ${CMAKE_CURRENT_BINARY_DIR}/generated)
