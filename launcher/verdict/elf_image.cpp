// SPDX-License-Identifier: MIT
#include "launcher/verdict/elf_image.h"

#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "ddp/base/demangle.h"

namespace ddp::launcher {
namespace {

// The types for this machine: 32 or 64 bits.
using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);
using Section = ElfW(Shdr);
using Symbol = ElfW(Sym);

bool is_of_this_kind(const Header& header) {
  constexpr unsigned char kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == kClass;
}

const Symbol* find_function(const std::vector<Symbol>& symbols, std::uint64_t address) {
  for (const Symbol& symbol : symbols) {
    const bool is_function = (symbol.st_info & 0xf) == STT_FUNC && symbol.st_shndx != SHN_UNDEF;
    if (is_function && address >= symbol.st_value && address - symbol.st_value < symbol.st_size) {
      return &symbol;
    }
  }
  return nullptr;
}

}  // namespace

ElfImage::ElfImage(const std::string& path)
    : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0 || !S_ISREG(info.st_mode)) return;
  size_ = static_cast<std::uint64_t>(info.st_size);
  const auto headers = read<Header>(0, 1);
  if (headers.empty() || !is_of_this_kind(headers[0])) size_ = 0;
}

// Empty if they cannot all be read.
template <typename T>
std::vector<T> ElfImage::read(std::uint64_t offset, std::uint64_t count) const {
  if (offset > size_ || count > (size_ - offset) / sizeof(T)) return {};
  std::vector<T> values(count);
  const std::size_t bytes = count * sizeof(T);
  const ssize_t got = ::pread(file_.get(), values.data(), bytes, static_cast<off_t>(offset));
  return got == static_cast<ssize_t>(bytes) ? values : std::vector<T>();
}

std::optional<std::uint64_t> ElfImage::address_of(std::uint64_t file_offset) const {
  const auto headers = read<Header>(0, 1);
  if (headers.empty()) return std::nullopt;
  for (const Segment& segment : read<Segment>(headers[0].e_phoff, headers[0].e_phnum)) {
    const bool is_inside =
        file_offset >= segment.p_offset && file_offset - segment.p_offset < segment.p_filesz;
    if (segment.p_type == PT_LOAD && is_inside) {
      return file_offset - segment.p_offset + segment.p_vaddr;
    }
  }
  return std::nullopt;
}

std::string ElfImage::function_at(std::uint64_t address) const {
  const auto headers = read<Header>(0, 1);
  if (headers.empty()) return "";
  const auto sections = read<Section>(headers[0].e_shoff, headers[0].e_shnum);
  for (const Section& section : sections) {
    const bool has_symbols = section.sh_type == SHT_SYMTAB || section.sh_type == SHT_DYNSYM;
    if (!has_symbols || section.sh_link >= sections.size()) continue;
    const auto symbols = read<Symbol>(section.sh_offset, section.sh_size / sizeof(Symbol));
    const Symbol* symbol = find_function(symbols, address);
    if (symbol == nullptr) continue;
    const Section& strings = sections[section.sh_link];
    std::vector<char> names = read<char>(strings.sh_offset, strings.sh_size);
    if (symbol->st_name >= names.size()) continue;
    names.back() = '\0';
    return demangle(names.data() + symbol->st_name);
  }
  return "";
}

}  // namespace ddp::launcher
