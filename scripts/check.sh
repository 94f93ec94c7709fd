#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Checks format, first lines, layers, names in anonymous namespaces, public headers and environment
# variables. (Warnings are errors in every build.)
set -euo pipefail
cd "$(dirname "$0")/.."
if ! git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  echo "check: git knows no checkout here: format and layers are not checked" >&2
  exit 0
fi
failed=0
complain() { echo "check: $*" >&2; failed=1; }

mapfile -t sources < <(git ls-files --cached --others --exclude-standard \
  '*.h' '*.cpp' '*.cu' '*.cuh' | while read -r f; do [ -f "$f" ] && echo "$f"; done)

# Format: by clang-format 14, since other versions differ in details.
formatter=$(command -v clang-format-14 || command -v clang-format || true)
if [ -n "$formatter" ] && "$formatter" --version | grep -q ' version 14\.'; then
  "$formatter" --dry-run -Werror "${sources[@]}" || complain "run clang-format -i on the above"
else
  echo "check: clang-format 14 is not installed; format not checked" >&2
fi

# First lines.
for file in "${sources[@]}"; do
  [ "$(head -n 1 "$file")" = "// SPDX-License-Identifier: MIT" ] || complain "$file: no licence line"
  case $file in
    *.h) grep -q '^#pragma once$' "$file" || complain "$file: no #pragma once" ;;
  esac
done

# Layers: which folders of "ddp/…" a folder may include beside itself. CMake targets enforce this
# between include roots; libddp is a single root, so this function does.
allowed() {
  case $1 in
    libddp/ddp/base*) echo base ;;
    libddp/ddp/store) echo "store base" ;;
    libddp/ddp/cuda) echo "cuda base" ;;
    libddp/ddp/buffer_ops) echo "buffer_ops cuda base" ;;
    libddp/ddp/collectives*) echo "collectives buffer_ops cuda store base" ;;
    libddp/ddp/engine*) echo "engine collectives buffer_ops cuda store base" ;;
    samplers/*) echo samplers ;;
    data/*) echo "data samplers buffer_ops cuda base" ;;
    io/*) echo "io buffer_ops cuda base" ;;
    kernels/*) echo "kernels buffer_ops cuda base" ;;
    nn/parallel/*) echo "nn kernels engine collectives buffer_ops cuda store base" ;;
    nn/*) echo "nn kernels buffer_ops cuda base" ;;
    launcher*) echo "store base" ;;
    *) return 1 ;;
  esac
}
for file in "${sources[@]}"; do
  folders=$(allowed "$(dirname "$file")") || continue
  for folder in $(sed -nE 's|^#include "ddp/([a-z_]+)/.*|\1|p' "$file" | sort -u); do
    case " $folders " in
      *" $folder "*) ;;
      *) complain "$file includes ddp/$folder, an arrow that goes up" ;;
    esac
  done
done

# No two folders include each other, not even by way of others. A folder and the one above it are one
# thing here: what a whole library shares lies above its parts, and so does what uses them.
loop=$(
  for file in "${sources[@]}"; do
    folder=$(dirname "$file" | sed -nE 's#^(.*/)?(ddp/.*|launcher/.*)$#\2#p')
    [ -n "$folder" ] || continue
    for other in $(sed -nE 's#^\#include "((ddp|launcher)/.*)/[^/]*"#\1#p' "$file" | sort -u); do
      case $folder/ in "$other"/*) continue ;; esac
      case $other/ in "$folder"/*) continue ;; esac
      echo "$folder $other"
    done
  done | sort -u | { tsort 2>&1 >/dev/null || true; } | awk '/a loop/ { loops++; next } loops == 1 { print $2 }'
)
[ -z "$loop" ] || complain "folders include each other in a circle:" $loop

# The folders of the collectives, as docs/architecture.md lists them: none includes one that stands
# below it there.
later=
for folder in start nccl hierarchical tcp shm meeting queue failure check hang peers; do
  wrong=$(grep -rnE "^#include \"ddp/collectives/(${later:-none})/" "libddp/ddp/collectives/$folder" || true)
  [ -z "$wrong" ] || complain "includes of folders that stand below:"$'\n'"$wrong"
  later=$folder${later:+|$later}
done

# Names in anonymous namespaces differ within a library: a unity build joins sources, and which ones
# changes with every new file. (Sources that stand in for others are kept apart.)
mapfile -t joined < <(printf '%s\n' "${sources[@]}" |
  grep -E '^(libddp|samplers|data|io|kernels|nn|launcher)/.*\.cpp$' | grep -vE '/(no_[a-z]+|onednn_[0-9])\.cpp$')
clashes=$(awk '
  FNR == 1 { library = FILENAME; sub(/\/.*/, "", library) }
  /^namespace [a-z]/ { outer = $2 }
  /^namespace \{$/ { inside = 1; next }
  /^\}  \/\/ namespace$/ { inside = 0 }
  !inside || !/^[A-Za-z]/ || /^(static_assert|template|using [A-Za-z]+ =)/ { next }
  {
    name = $0
    if (name ~ /^(struct|class|enum|union) /) {
      if (name ~ /;$/ && name !~ /\{/) next  # only declared
      sub(/^(struct|enum class|class|enum|union) +/, "", name); sub(/[^A-Za-z0-9_].*/, "", name)
    } else if (name ~ /^[^(]* k[A-Z][A-Za-z0-9]*( =|[{;]|\[)/) {
      match(name, / k[A-Z][A-Za-z0-9]*/); name = substr(name, RSTART + 1, RLENGTH - 1)
    } else if (name ~ /\(/) {
      sub(/ *\{.*/, "", name)  # a function: with its parameters, since others overload it
    } else next
    key = library " " outer " " name
    if (key in where && where[key] != FILENAME) print "  " FILENAME " and " where[key] ": " name
    where[key] = FILENAME
  }' "${joined[@]}")
[ -z "$clashes" ] || complain "equal names in anonymous namespaces of one library:"$'\n'"$clashes"

# Nor do they hide a function of libddp's headers from the sources behind them. A call with arguments
# of our own types finds it all the same, but not one with an exception.
mapfile -t headers < <(printf '%s\n' "${sources[@]}" | grep -E '^libddp/.*\.h$')
clashes=$(awk '
  FNR == 1 { inside = 0 }
  /^namespace \{$/ { inside = 1; next }
  /^\}  \/\/ namespace$/ { inside = 0 }
  !/^[A-Za-z[].*\(/ { next }
  { name = $0; sub(/\(.*/, "", name); sub(/.*[ &*]/, "", name) }
  FILENAME ~ /\.h$/ && /\(const std::[a-z_]+& [a-z_]+\);$/ { where[name] = FILENAME }
  inside && name in where { print "  " FILENAME " and " where[name] ": " name }
  ' "${headers[@]}" $(printf '%s\n' "${joined[@]}" | grep ^libddp/))
[ -z "$clashes" ] || complain "names in anonymous namespaces that hide functions:"$'\n'"$clashes"

# In a unity build of tests a call could find another file's helper, with other parameters or a
# larger tolerance. So the names of functions differ among the files that are united.
clashes=$(git ls-files 'tests/*/CMakeLists.txt' | while read -r list; do
  folder=$(dirname "$list")
  apart=$(sed -nE 's/^ddp_keep_apart\((.*)\)$/\1/p' "$list")
  tr -s ' \n' '  ' <"$list" | grep -oE 'ddp_add(_gpu)?_test\([^)]*SOURCES [^)]*\)' | while read -r call; do
    files=()
    for word in ${call##*SOURCES }; do
      word=${word%)}
      case " $apart " in *" $word "*) continue ;; esac
      [[ $word != *_test.cpp ]] || files+=("$folder/$word")
    done
    [ "${#files[@]}" -lt 2 ] || awk '
      /^namespace \{$/ { inside = 1; next }
      /^\}  \/\/ namespace$/ { inside = 0 }
      function note(name, how) {
        if (name in where && where[name] != FILENAME && (how == "made" || kind[name] == "made"))
          print "  " FILENAME " and " where[name] ": " name
        where[name] = FILENAME
        if (kind[name] != "made") kind[name] = how
      }
      /^using [a-z_:]+::[a-z][a-z_0-9]*;$/ {
        name = $0; sub(/.*::/, "", name); sub(/;/, "", name); note(name, "imported")
      }
      /^(struct|class|enum|union|using|template|static_assert|constexpr [^(]* k[A-Z])/ { next }
      inside && /^[A-Za-z].*\(/ {
        name = $0; sub(/\(.*/, "", name); sub(/.*[ &*]/, "", name); note(name, "made")
      }' "${files[@]}"
  done
done)
[ -z "$clashes" ] || complain "equal names of helpers in tests that are united:"$'\n'"$clashes"

# Public headers are those that the libraries' CMakeLists.txt list. They may include neither our
# other headers, which are not installed, nor headers of other libraries. Examples, which users copy,
# include only public headers of ours.
public=()
declare -A is_public
for list in $(git ls-files '*CMakeLists.txt'); do
  for header in $(sed -nE 's|^ +(ddp/[a-z0-9_/]+\.h)$|\1|p' "$list"); do
    public+=("$(dirname "$list")/$header")
    is_public[$header]=yes
  done
done
[ "${#public[@]}" -gt 0 ] || complain "no CMakeLists.txt lists a public header"
mapfile -t examples < <(printf '%s\n' "${sources[@]}" | grep '^examples/')
for file in "${public[@]}" "${examples[@]}"; do
  for header in $(sed -nE 's|^#include ["<](ddp/[^">]+)[">].*|\1|p' "$file"); do
    [ -n "${is_public[$header]:-}" ] || complain "$file includes $header, which is not public"
  done
done
for file in "${public[@]}" examples/libtorch/ddp_torch.h; do
  if grep -nE '#include <(spdlog|fmt|nccl|cuda|cublas|cudnn|nlohmann|zlib|dnnl)' "$file"; then
    complain "$file: a public header that needs another library's"
  fi
done

# docs/environment.md must list these environment variables: all that libraries and programs name,
# recognised by the beginnings of their names, and those of our own that anything else reads.
names() { git grep --untracked -hoE "$@" | grep -oE '[A-Z][A-Za-z0-9_]+$' | sort -u; }
families='WORLD|LOCAL|GROUP|ROLE|MASTER|DDP|NCCL|TORCH|TORCHELASTIC|OMP|OMPI|PMI|PMIX|MPI|SLURM|CUDA|PET|PYTHON'
variables=$(
  names "\"(RANK|TMPDIR|($families)_[A-Za-z0-9_]+)" -- {libddp,samplers,data,io,kernels,nn,launcher,examples}/
  names '(getenv\(|environ\.get\(|environ\[|\$ENV\{)"?DDP_[A-Z0-9_]+' -- .
  names '\$\{DDP_[A-Z0-9_]+' -- '*.sh')
for variable in $variables; do
  grep -qF "\`$variable\`" docs/environment.md || complain "docs/environment.md lacks $variable"
done

[ "$failed" -eq 0 ] && echo "check: ${#sources[@]} files are fine"
exit "$failed"
