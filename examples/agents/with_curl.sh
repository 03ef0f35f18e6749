#!/usr/bin/env bash
# Asks about each of $DIGITS and writes the share of right answers to $WARREN_REWARD.
set -euo pipefail
history=""
n_right=0
for digit in $DIGITS; do
  history+="${history:+, }{\"role\": \"user\", \"content\": \"$digit?\"}"
  answer=$(curl -sSf "$OPENAI_BASE_URL/chat/completions" \
    -H "Authorization: Bearer $OPENAI_API_KEY" -H "Content-Type: application/json" \
    -d "{\"model\": \"policy\", \"messages\": [$history]}")
  said=$(sed -E 's/.*"content":"([^"]*)".*/\1/' <<< "$answer")
  history+=", {\"role\": \"assistant\", \"content\": \"$said\"}"
  if [ $((digit % 2)) = 0 ]; then right=e; else right=o; fi
  if [ "$said" = "$right" ]; then n_right=$((n_right + 1)); fi
done
echo "0.$((n_right * 5))" | sed 's/0\.10/1.0/' > "$WARREN_REWARD"
