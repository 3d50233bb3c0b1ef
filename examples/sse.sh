#!/bin/sh
# Follows the event stream with curl: one JSON object on each line, for jq and friends.
# After every break it goes on behind the last event that was printed.
# usage: sse.sh URL [PLACE-FILE], such as: sse.sh 'http://localhost:10258/events?from=oldest' place
set -eu
url=${1:?usage: sse.sh URL [PLACE-FILE]}
place=${2:-place}
[ -e "$place" ] || : > "$place"

print_events() {
  id='' kind='' data=''
  while IFS= read -r line; do
    case $line in
      'id: '*) id=${line#id: } ;;
      'event: '*) kind=${line#event: } ;;
      'data: '*) data=${line#data: } ;;
      '')
        case $kind in
          '' | heartbeat) ;;
          reset) printf 'events were missed: %s\n' "$data" >&2 ;;
          *) printf '%s\n' "$data" || exit 1 ;;
        esac
        if [ -n "$id" ]; then printf '%s' "$id" > "$place.new" && mv "$place.new" "$place"; fi
        id='' kind='' data=''
        ;;
    esac
  done
  return 0
}

while :; do
  last=$(cat "$place")
  # Heartbeats come every 15 s: a link that is silent for 60 s is dead. An empty header is not sent.
  curl --silent --show-error --fail --no-buffer --speed-limit 1 --speed-time 60 \
    --header 'Accept: text/event-stream' --header "Last-Event-ID:${last:+ $last}" "$url" \
    | print_events  # it fails, and ends this, when what it prints is not read
  sleep 3
done
