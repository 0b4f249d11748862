#!/usr/bin/env bash
# The whole way of a newcomer on 200 pictures, at the shell: docs/tutorials/whole_way.md shows the same commands.
# It needs limner and curl. No Python is written at any step. The folder it runs in should be empty.
set -euo pipefail

# Stand-ins for what a person has: 200 pictures with captions but no splits, and two models trained elsewhere.
limner data convert scenes photos -O images=200 -O seed=11
sed -i.bak -E 's/","(split|train|dev|test)","[^"]*"$/"/' photos/captions.csv
limner train histograms scenes -O images=300 -o mine
limner train colours scenes -O images=300 -o theirs

# 1. Look at the collection.
limner data describe photos

# 2. Encode both sides with both models.
limner encode photos --side images --model mine -o images.npz
limner encode photos --side texts --model mine -o texts.npz
limner encode photos --side images --model theirs -o their_images.npz
limner encode photos --side texts --model theirs -o their_texts.npz

# 3. Evaluate and explain.
limner evaluate photos --images images.npz --texts texts.npz --name mine -o before.json -o before.html
limner explain failures photos --images images.npz --texts texts.npz --limit 1

# 4. Index and search.
limner index photos.index photos --model mine
limner search photos.index "a red balloon by the sea" -k 3 -o found.html

# 5. Pool what both models rank first, make tasks, search on the page and label one task of 20 pairs there.
limner annotate pool work.db photos --split all --model mine --model theirs --depth 3
limner annotate tasks work.db
limner serve photos --model mine --model theirs --store work.db --port 0 --json > served.json &
server=$!
trap 'kill -INT $server 2> /dev/null || true' EXIT
for _ in $(seq 600); do [ -s served.json ] && break; sleep 0.2; done
address=$(sed -n 's/.*"url": "\(.*\)".*/\1/p' served.json)
for _ in $(seq 600); do  # the first search waits for the models
  curl -sf "${address}api/search?q=a+red+balloon&s=mine&s=theirs&k=3" > searched.json || true
  grep -q '"columns"' searched.json && break; sleep 0.5
done
grep -q '"columns"' searched.json
send() { curl -sf -X POST -H 'Content-Type: application/json' -d "$2" "${address}api/$1"; }
items=$(send task '{}' | grep -o '"id":[0-9]*' | cut -d: -f2)
for item in $items; do  # a person presses a key here
  send answers "{\"item\": $item, \"key\": \"newcomer-$item\", \"grade\": $((item % 3 == 0 ? 1 : 4))}" > /dev/null
done
kill -INT $server
wait $server || true
trap - EXIT
limner annotate status work.db

# 6. Merge the answers with the original pairs, evaluate again, and compare the two models.
limner annotate merge work.db -o better.qrels
limner evaluate photos --judgements better.qrels --images images.npz --texts texts.npz --name mine -o mine.json
limner evaluate photos --judgements better.qrels --images their_images.npz --texts their_texts.npz --name theirs -o theirs.json
limner compare mine.json theirs.json
