// How a store comes to be: the wheel's import and its `setup`.
#include <functional>

#include "core/error.h"
#include "core/processors.h"
#include "engines/mooncake/exit_hook.h"
#include "engines/mooncake/local_address.h"
#include "engines/mooncake/python/interpreter.h"
#include "engines/mooncake/store.h"
#include "engines/mooncake/store_methods.h"
#include "engines/mooncake/wheel_log.h"

namespace mooncake_kv::mooncake {

using python::call;
using python::Lock;
using python::Raised;
using python::Ref;

namespace {

constexpr const char* WHEEL = "mooncake-transfer-engine-non-cuda==0.3.13.post1";
constexpr int32_t SEVERITY_WARNING = 1;

bool mentions(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

/** What went wrong with the import, and the command that mends it. */
Error importError(const std::string& python, const std::string& raised) {
  const std::string interpreter = python.empty() ? "python3" : python;
  if (mentions(raised, "cannot open shared object file")) {
    return Error("CONFIGURATION", "mooncake", interpreter, "the Mooncake package misses a C library: " + raised,
                 "Debian, Ubuntu: apt-get install libibverbs1 librdmacm1 libnuma1 libcurl4");
  }
  if (mentions(raised, "No module named")) {
    return Error("CONFIGURATION", "mooncake", interpreter, "the interpreter has no Mooncake package: " + raised,
                 "Run: " + interpreter + " -m pip install " + WHEEL);
  }
  if (mentions(raised, "has no attribute")) {
    return Error("CONFIGURATION", "mooncake", interpreter, "the Mooncake package is of a release that lacks what the engine calls: " + raised,
                 "Run: " + interpreter + " -m pip install " + WHEEL);
  }
  return Error("CONFIGURATION", "mooncake", interpreter, "the Mooncake package cannot be used: " + raised,
               "Run: " + interpreter + " -m pip install --force-reinstall " + WHEEL);
}

/** Whether puts can name groups; older wheels cannot, and then, as in vLLM, values are stored without any. */
bool knowsGroups(python::Object* replicateConfig) {
  try {
    python::attribute(replicateConfig, "group_ids");
    return true;
  } catch (const Raised&) {
    addLogLine({.severity = SEVERITY_WARNING,
                .source = "store_set_up.cc:" + std::to_string(__LINE__),
                .text = std::string("enable_group_semantics: true has no effect: the Mooncake package has no ReplicateConfig.group_ids. Run: "
                                    "python3 -m pip install ") +
                        WHEEL});
    return false;
  }
}

/** Without puts in steps nobody can say whose a value is, and a checksum belongs to the put that stored it. */
void lookForSteps(const std::function<void()>& look) {
  try {
    look();
  } catch (const Raised&) {
    addLogLine({.severity = SEVERITY_WARNING,
                .source = "store_set_up.cc:" + std::to_string(__LINE__),
                .text = std::string("pool_verify: this member stores no checksums, because the Mooncake package has no "
                                    "batch_put_session_start. Run: python3 -m pip install ") +
                        WHEEL});
  }
}

/** As vLLM calls it: the tenant only when it is not the default one. */
int64_t callSetup(python::Object* store, const MooncakeOptions& options) {
  const Ref setup = python::attribute(store, "setup");
  const Ref hostname = python::text(options.localHostname.empty() ? localAddress(options.masterServerAddress) : options.localHostname);
  const Ref metadata = python::text(options.metadataServer);
  const Ref segment = python::number(options.globalSegmentBytes);
  const Ref buffer = python::number(options.localBufferBytes);
  const Ref protocol = python::text(options.protocol);
  const Ref devices = python::text(options.deviceName);
  const Ref master = python::text(options.masterServerAddress);
  const Ref named = Ref::take(python::api().PyDict_New());
  if (!options.tenantId.empty() && options.tenantId != "default") {
    python::api().PyDict_SetItemString(named.get(), "tenant_id", python::text(options.tenantId).get());
  }
  return python::asNumber(call(setup.get(),
                               {hostname.get(), metadata.get(), segment.get(), buffer.get(), protocol.get(), devices.get(), master.get()},
                               named.get())
                              .get());
}

}  // namespace

void Store::importWheel(const MooncakeOptions& options) {
  python::startPython(options.pythonExecutable, options.pythonLibrary);
  const Lock lock;
  try {
    const Ref module = python::importModule("mooncake.store");
    python::attribute(module.get(), "ReplicateConfig");
    // Before any master is asked for: a wheel of another release is told of at once.
    Methods().look(python::attribute(module.get(), "MooncakeDistributedStore").get());
  } catch (const Raised& raised) {
    throw importError(options.pythonExecutable, raised.what());
  }
  catchWheelLog();
  hookExit();
}

std::shared_ptr<Store> Store::setUp(const MooncakeOptions& options) {
  importWheel(options);
  const std::shared_ptr<Store> store(new Store());
  Methods& methods = *store->methods_;
  methods.open = std::make_unique<OpenStore>();
  if (OpenStore::tooLate()) throw Error("UNREACHABLE", "mooncake", "", "the process ends", "Open no engine then.");
  const Lock lock;
  try {
    const Ref module = python::importModule("mooncake.store");
    methods.object = call(python::attribute(module.get(), "MooncakeDistributedStore").get(), {});
    methods.look(methods.object.get());
    methods.replicateConfigType = python::attribute(module.get(), "ReplicateConfig");
    methods.preferredSegment = options.preferredSegment;
    methods.replicateConfig = methods.newReplicateConfig();
    if (options.verify != Verify::off) lookForSteps([&] { methods.lookForSteps(); });
    methods.namesGroups = options.groupSemantics && knowsGroups(methods.replicateConfig.get());
  } catch (const Raised& raised) {
    throw importError(options.pythonExecutable, raised.what());
  }
  int64_t code = 0;
  std::string raisedText;
  // Its transport thread is started here, and keeps off the processors of those who call.
  const HalfOfProcessors half(HalfOfProcessors::Half::second, spins(options));
  try {
    code = callSetup(methods.object.get(), options);
  } catch (const Raised& raised) {
    raisedText = raised.what();
  }
  // The wheel's handler was registered with the first store.
  hookExit();
  if (code == 0 && raisedText.empty()) return store;
  const std::string said = raisedText.empty() ? lastWheelError() : raisedText;
  throw Error("UNREACHABLE", "master_server_address", options.masterServerAddress,
              "the store's set-up failed with code " + std::to_string(code) + (said.empty() ? "" : ": " + said),
              "See that the master runs there, that protocol and device_name fit this host, and that it has the memory asked for.");
}

}  // namespace mooncake_kv::mooncake
