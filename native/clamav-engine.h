// SPDX-License-Identifier: GPL-2.0-only
// One compiled libclamav engine: immutable, shared by all threads, freed with its last reference.
#pragma once

#include <cstddef>
#include <memory>

#include "report.h"
#include "storage.h"

struct cl_engine;

namespace sluice {

class ClamavEngine {
 public:
  // Once per process however often it is called, on the thread that loads the addon; throws LoadError.
  static void InitializeLibrary();

  // Loads and compiles on the calling thread; throws LoadError with a reason that names folder, file and line.
  static std::shared_ptr<const ClamavEngine> Build(const LoadRequest& request, const LoadObserver& observer,
                                                   uint64_t epoch);

  // Scans the samples of the request; throws LoadError when the answers are not those of an engine that works.
  void Prove(const LoadRequest& request) const;

  // Reads the content in place; nobody may write to it meanwhile. Any number of threads may scan at once.
  ScanReport Scan(const void* content, size_t length) const;

  const EngineFacts& facts() const { return facts_; }
  const std::string& temporary_directory() const { return storage_.directory(); }

 private:
  struct Free {
    void operator()(cl_engine* engine) const;
  };
  using Handle = std::unique_ptr<cl_engine, Free>;

  ClamavEngine(Handle handle, EngineFacts facts, std::string temporary_directory)
      : handle_(std::move(handle)), facts_(std::move(facts)), storage_(std::move(temporary_directory)) {}
  static void Configure(cl_engine* engine, const LoadRequest& request);
  ScanReport ScanOnce(const void* content, size_t length, bool all_matches) const;

  Handle handle_;
  EngineFacts facts_;
  Storage storage_;
};

}  // namespace sluice
