#!/bin/sh
# What a program may do with a call: its argument `do` says which. Runs as a subprocess and, in busybox, in a container.
input=$(cat)
case "$input" in
*'"do":"echo"'*) printf '%s' "$input" ;;
*'"do":"size"'*) printf '%s' "$input" | wc -c ;;
*'"do":"not_json"'*) echo 'three words here' ;;
*'"do":"nothing"'*) ;;
*'"do":"fail"'*) echo 'the reason: kein Fünfer' >&2; exit 3 ;;
*'"do":"chatter"'*) yes 'a long line of an error' | head -c 10000000 >&2; echo 'the last line' >&2; exit 4 ;;
*'"do":"flood"'*) yes 'seven words that are written for nothing' | head -c 100000000 ;;
*'"do":"sleep"'*) sleep 61 ;;
*'"do":"stubborn"'*) trap '' TERM INT HUP; sleep 61; sleep 61 ;;
*'"do":"family"'*) (sleep 61 & sleep 61) & sleep 61 ;;
*'"do":"daemon"'*) (setsid sleep 61 </dev/null >/dev/null 2>&1 &) ; echo '"left one behind"' ;;
*'"do":"close"'*) exec 1>&-; sleep 0.3; exit 0 ;;
*'"do":"die"'*) kill -9 $$; exit 137 ;;
*'"do":"contexts"'*) printf '%s' "$CALLBOARD_CONTEXT" ;;
*'"do":"environment"'*) printf '"%s"' "$(env | sort | tr '\n"\\' ' __')" ;;
esac
