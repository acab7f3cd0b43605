// Values with checksums: how they are put, and what a get makes of them.
#include <algorithm>
#include <utility>

#include "core/codes.h"
#include "core/layout.h"
#include "core/xxh3.h"
#include "engines/mooncake/checksums.h"
#include "engines/mooncake/mooncake_engine.h"

namespace mooncake_kv::mooncake {

namespace {

using wheel_code::isUnanswered;

/** The values of a call, one after the other, where they lie. */
template <typename Visit>
void eachDigest(const PoolRequest& request, const PlannedCall& call, const uint8_t* staged, Visit&& visit) {
  for (uint32_t index = call.from; index < call.to; index++) {
    visit(index, [&](Digest& digest) {
      if (staged == nullptr) return digestValue(request, index, digest.data());
      xxh3Digest(xxh3Accumulate(), staged, request.valueBytes(index), digest.data());
    });
    if (staged != nullptr) staged += request.valueBytes(index);
  }
}

void append(Names& to, const Names& from) { to.insert(to.end(), from.begin(), from.end()); }

}  // namespace

void MooncakeEngine::putChecked(PoolRequest& request, const PlannedCall& call, const uint8_t* staged, const Transfer& transfer,
                                std::vector<int32_t>& results) {
  const uint32_t count = call.to - call.from;
  Names names, ofKeys;
  std::vector<uint64_t> bytes;
  std::vector<Digest> digests;
  const auto add = [&](std::string name, uint32_t index, uint64_t size) {
    names.push_back(std::move(name));
    ofKeys.emplace_back(request.key(index));
    bytes.push_back(size);
  };
  for (uint32_t index = call.from; index < call.to; index++) add(std::string(request.key(index)), index, request.valueBytes(index));
  eachDigest(request, call, staged, [&](uint32_t index, auto&& take) {
    take(digests.emplace_back());
    add(checksumKeyOf(request.key(index), digests.back().data()), index, 1);
    add(checksumMarkOf(request.key(index)), index, XXH3_BYTES);
  });
  std::vector<int32_t> started;
  store().startPut(names, bytes, ofKeys, started);
  results.assign(started.begin(), started.begin() + count);

  std::vector<CheckedPut> puts;
  Names back;
  for (uint32_t nth = 0; nth < count; nth++) {
    const size_t named = count + 2 * nth, mark = named + 1;
    CheckedPut put{.index = call.from + nth, .names = {}};
    if (results[nth] == 0) put.names.push_back(names[nth]);
    // They may be there already, of an earlier value that was as good.
    if (started[named] == 0) put.names.push_back(names[named]);
    if (started[mark] == 0) put.names.push_back(names[mark]);
    put.hasMark = started[mark] == 0;
    if (results[nth] == 0) {
      puts.push_back(std::move(put));
    } else {
      // The value is another's: what is known of it is not ours to say.
      append(back, put.names);
    }
  }
  try {
    std::vector<int32_t> moved;
    const Transfer own = partOf(transfer, [&](uint32_t index) { return results[index - call.from] == 0; });
    if (!own.keys.empty()) store().transferPut(request, own, moved);
    for (size_t nth = 0; nth < puts.size(); nth++) {
      const uint32_t index = puts[nth].index;
      if (moved[nth] < 0 || static_cast<uint64_t>(moved[nth]) != request.valueBytes(index)) {
        results[index - call.from] = moved[nth] < 0 ? moved[nth] : wheel_code::TRANSFER_FAIL;
        append(back, std::exchange(puts[nth].names, {}));
      }
    }
    writeMarks(puts, digests, call.from, back);
    store().revokePut(back);
  } catch (const python::Raised&) {
    // What was begun and is neither ended nor taken back would keep its key from everybody for a while.
    for (const CheckedPut& put : puts) append(back, put.names);
    store().revokePut(back);
    throw;
  }
  endPuts(puts, call.from, results);
  if (std::find(results.begin(), results.end(), wheel_code::INVALID_PARAMS) == results.end()) return;
  // Another thread is putting the same key. Its value may still come to nothing, so this one is put as without checksums.
  const Transfer twice = partOf(transfer, [&](uint32_t index) { return results[index - call.from] == wheel_code::INVALID_PARAMS; });
  std::vector<int32_t> put;
  store().put(request, twice, put);
  for (size_t nth = 0; nth < put.size(); nth++) results[twice.keys[nth] - call.from] = put[nth];
}

void MooncakeEngine::writeMarks(std::vector<CheckedPut>& puts, const std::vector<Digest>& digests, uint32_t from, Names& back) {
  const Staging::Lease buffer = connection_->pool->digests.take();
  Names marks;
  std::vector<CheckedPut*> ofMarks;
  for (CheckedPut& put : puts) {
    if (!put.hasMark || put.names.empty()) continue;
    if (buffer && (marks.size() + 1) * XXH3_BYTES <= Pool::DIGESTS_BYTES) {
      std::copy_n(digests[put.index - from].data(), XXH3_BYTES, buffer.data() + marks.size() * XXH3_BYTES);
      marks.push_back(put.names.back());
      ofMarks.push_back(&put);
    } else {
      back.push_back(std::move(put.names.back()));
      put.names.pop_back();
    }
  }
  if (marks.empty()) return;
  std::vector<int32_t> moved;
  store().transferPut(marks, buffer.data(), XXH3_BYTES, moved);
  for (size_t nth = 0; nth < marks.size(); nth++) {
    if (moved[nth] == static_cast<int32_t>(XXH3_BYTES)) continue;
    back.push_back(marks[nth]);
    ofMarks[nth]->names.pop_back();
  }
}

void MooncakeEngine::endPuts(const std::vector<CheckedPut>& puts, uint32_t from, std::vector<int32_t>& results) {
  Names ends;
  for (const CheckedPut& put : puts) append(ends, put.names);
  if (ends.empty()) return;
  std::vector<int32_t> ended;
  store().endPut(ends, ended);
  size_t at = 0;
  for (const CheckedPut& put : puts) {
    if (put.names.empty()) continue;
    results[put.index - from] = ended[at];
    at += put.names.size();
  }
}

bool MooncakeEngine::checkArrived(PoolRequest& request, const PlannedCall& call, const uint8_t* staged) {
  std::vector<uint32_t> arrived;
  std::vector<Digest> digests(call.to - call.from);
  Names asked;
  eachDigest(request, call, staged, [&](uint32_t index, auto&& take) {
    if (request.result(index) < 0) return;
    take(digests[index - call.from]);
    arrived.push_back(index);
    asked.push_back(checksumKeyOf(request.key(index), digests[index - call.from].data()));
  });
  if (arrived.empty()) return true;
  std::vector<int32_t> known, marked;
  store().exists(asked, known);
  if (std::any_of(known.begin(), known.end(), isUnanswered)) return false;
  asked.clear();
  std::vector<uint32_t> unknown;
  for (size_t nth = 0; nth < arrived.size(); nth++) {
    if (known[nth] == 1) {
      request.setTier(arrived[nth], layout::CHECK_VERIFIED);
      continue;
    }
    unknown.push_back(arrived[nth]);
    asked.push_back(checksumMarkOf(request.key(arrived[nth])));
  }
  if (unknown.empty()) return true;
  // Either key may have been evicted without the other, so an absent name says nothing yet.
  store().exists(asked, marked);
  if (std::any_of(marked.begin(), marked.end(), isUnanswered)) return false;
  std::vector<uint32_t> doubtful;
  asked.clear();
  for (size_t nth = 0; nth < unknown.size(); nth++) {
    if (marked[nth] == 1) {
      doubtful.push_back(unknown[nth]);
      asked.push_back(checksumMarkOf(request.key(unknown[nth])));
    } else if (options_.verify == Verify::require) {
      setMiss(request, unknown[nth]);
    }
  }
  if (!doubtful.empty()) compareMarks(request, doubtful, asked, digests, call.from);
  return true;
}

void MooncakeEngine::compareMarks(PoolRequest& request, const std::vector<uint32_t>& doubtful, const Names& marks,
                                  const std::vector<Digest>& digests, uint32_t from) {
  const Staging::Lease buffer = connection_->pool->digests.take();
  const Names read(marks.begin(), marks.begin() + static_cast<ptrdiff_t>(std::min(marks.size(), size_t{Pool::DIGESTS_BYTES} / XXH3_BYTES)));
  std::vector<int32_t> moved;
  if (buffer) store().get(read, buffer.data(), XXH3_BYTES, moved);
  for (size_t nth = 0; nth < doubtful.size(); nth++) {
    const uint32_t index = doubtful[nth];
    if (nth >= moved.size() || moved[nth] != static_cast<int32_t>(XXH3_BYTES)) {
      // Evicted meanwhile, or not to be had: as a value without a checksum.
      if (options_.verify == Verify::require) setMiss(request, index);
    } else if (std::equal(digests[index - from].begin(), digests[index - from].end(), buffer.data() + nth * XXH3_BYTES)) {
      request.setTier(index, layout::CHECK_VERIFIED);
    } else {
      refuse(request, index, code::CHECKSUM_MISMATCH);
    }
  }
}

}  // namespace mooncake_kv::mooncake
