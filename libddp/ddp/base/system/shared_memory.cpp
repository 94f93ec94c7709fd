// SPDX-License-Identifier: MIT
#include "ddp/base/system/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include "ddp/base/error.h"

namespace ddp {
namespace {

// Large memory is aligned for huge pages, which the kernel gives to shared memory if
// transparent_hugepage/shmem_enabled says so; often it does not.
constexpr std::size_t kSharedHugePage = std::size_t{2} << 20;

#ifndef MADV_POPULATE_WRITE
constexpr int MADV_POPULATE_WRITE = 23;  // which C libraries before 2.35 do not declare
#endif

// The memory that this process has created, by descriptor, for threads of this process that open
// it.
class OwnMemory {
 public:
  void add(const std::shared_ptr<SharedMemory>& memory) {
    const std::lock_guard lock(mutex_);
    by_fd_[memory->name().fd] = memory;
  }
  std::shared_ptr<SharedMemory> find(const SharedMemory::Name& name) {
    const std::lock_guard lock(mutex_);
    const auto found = by_fd_.find(name.fd);
    const auto memory = found == by_fd_.end() ? nullptr : found->second.lock();
    return memory && memory->name().inode == name.inode ? memory : nullptr;
  }

 private:
  std::mutex mutex_;
  std::map<int, std::weak_ptr<SharedMemory>> by_fd_;
};

// Never destroyed: threads may outlive static objects.
OwnMemory& own_memory() {
  static auto& memory = *new OwnMemory;
  return memory;
}

std::string bytes(std::size_t size) { return std::to_string(size) + " bytes"; }

struct stat status_of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    throw SystemError("cannot read the size of shared memory (fstat)", errno);
  }
  return status;
}

// A process has its descriptors until its last thread ends; below /proc/PID/fd they are those of
// the main thread, which may end before. Leaves the reason in errno if it fails.
FileDescriptor open_file(const SharedMemory::Name& name) {
  const auto open = [](const std::string& path) {
    return FileDescriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  };
  FileDescriptor file = open(to_string(name));
  if (file.is_open()) return file;
  const int error = errno;
  std::error_code ignored;
  const std::string threads = "/proc/" + std::to_string(name.pid) + "/task";
  for (const auto& thread : std::filesystem::directory_iterator(threads, ignored)) {
    file = open(thread.path() / "fd" / std::to_string(name.fd));
    if (file.is_open()) break;
  }
  errno = error;
  return file;
}

std::byte* map(int fd, std::size_t size_bytes) {
  void* data = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    throw SystemError("cannot map " + bytes(size_bytes) + " of shared memory", errno);
  }
  if (size_bytes >= kSharedHugePage) (void)::madvise(data, size_bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(data);
}

// Beyond the limit ftruncate would raise SIGXFSZ, which ends the process without a word.
void check_file_size_limit(std::size_t size_bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || size_bytes <= limit.rlim_cur) return;
  throw SystemError("cannot size shared memory to " + bytes(size_bytes) +
                        ", since ulimit -f allows files of " + bytes(limit.rlim_cur),
                    EFBIG);
}

}  // namespace

SharedMemory::SharedMemory(FileDescriptor file, const Name& name)
    : file_(std::move(file)), name_(name), data_(map(file_.get(), name.size_bytes)) {}

SharedMemory::~SharedMemory() { ::munmap(data_, name_.size_bytes); }

std::shared_ptr<SharedMemory> SharedMemory::create(std::size_t size_bytes) {
  check_file_size_limit(size_bytes);
  FileDescriptor file(::memfd_create("ddp-shm", MFD_CLOEXEC));
  if (!file.is_open()) throw SystemError("cannot create shared memory (memfd_create)", errno);
  if (::ftruncate(file.get(), static_cast<off_t>(size_bytes)) != 0) {
    throw SystemError("cannot size shared memory to " + bytes(size_bytes), errno);
  }
  const Name name{::getpid(), file.get(), status_of(file.get()).st_ino, size_bytes};
  const std::shared_ptr<SharedMemory> memory(new SharedMemory(std::move(file), name));
  own_memory().add(memory);
  return memory;
}

// The mapping alone keeps the memory.
std::shared_ptr<SharedMemory> SharedMemory::open(const Name& name) {
  if (name.pid == ::getpid()) {
    if (const auto own = own_memory().find(name)) return own;
  }
  const std::string path = to_string(name);
  FileDescriptor file = open_file(name);
  if (!file.is_open()) {
    throw SystemError("cannot open the shared memory " + path +
                          " (processes in different containers or of different users?)",
                      errno);
  }
  const struct stat status = status_of(file.get());
  if (status.st_ino != name.inode || static_cast<std::size_t>(status.st_size) != name.size_bytes) {
    throw MismatchError(path + " is no longer the shared memory of " + bytes(name.size_bytes) +
                        " that another rank created");
  }
  std::shared_ptr<SharedMemory> memory(new SharedMemory(std::move(file), name));
  memory->file_.reset();
  return memory;
}

// A kernel before 5.14 cannot populate memory; pages are then allocated at first touch.
void SharedMemory::populate() const {
  if (::madvise(data_, name_.size_bytes, MADV_POPULATE_WRITE) == 0 || errno == EINVAL) return;
  throw SystemError("cannot reserve " + bytes(name_.size_bytes) + " of shared memory", errno);
}

void SharedMemory::discard() noexcept {
  if (name_.pid != ::getpid()) return;
  is_discarded_.store(true);
  ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
              static_cast<off_t>(name_.size_bytes));
}

std::string to_string(const SharedMemory::Name& name) {
  return "/proc/" + std::to_string(name.pid) + "/fd/" + std::to_string(name.fd);
}

}  // namespace ddp
