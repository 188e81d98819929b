# Progress of long steps, also where standard error is not a terminal. Sourced by prepare.sh.

# duration SECONDS prints `1 min 05 s`.
duration() {
    if [ "$1" -lt 60 ]; then printf '%d s' "$1"; else printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); fi
}

# with_progress NAME CARGO-COMMAND… runs cargo. On a terminal cargo shows its own progress bar; elsewhere a line is printed every
# 10 seconds. Warnings and errors are passed through.
with_progress() {
    local name=$1 from=$SECONDS status=0
    shift
    say "── $name"
    if [ -t 2 ] && [ -z "${CI-}" ]; then
        "$@" || status=$?
    else
        # The bar is where cargo counts its work: it is asked for one of fixed width, and the filter reads it.
        CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=120 CARGO_TERM_COLOR=never "$@" 2>&1 | cargo_progress >&2 ||
            status=${PIPESTATUS[0]}
    fi
    [ $status -eq 0 ] || return $status
    say "   $name: done in $(duration $((SECONDS - from)))"
}

# Reads cargo's standard error: prints its counter every 10 seconds, and everything that is not progress at once.
cargo_progress() {
    local begin=$SECONDS printed=$SECONDS line count="" status
    # Cargo ends each state of its bar with a carriage return.
    stdbuf -oL tr '\r' '\n' | while :; do
        status=0
        IFS= read -r -t 1 line || status=$?
        if [[ $line =~ ^\ *Building\ \[[^]]*\]\ ([0-9]+)/([0-9]+):?\ *(.*[^ ])?\ *$ ]]; then
            count="${BASH_REMATCH[1]} of ${BASH_REMATCH[2]}${BASH_REMATCH[3]:+ (${BASH_REMATCH[3]})}"
        elif [[ ! $line =~ ^\ *($|(Compiling|Fresh|Finished|Downloading|Downloaded|Updating|Locking|Adding|Blocking)\ ) ]]; then
            printf '%s\n' "$line"
        fi
        if [ -n "$count" ] && [ $((SECONDS - printed)) -ge 10 ]; then
            printf '   compiled %s, %s\n' "$count" "$(duration $((SECONDS - begin)))"
            printed=$SECONDS
        fi
        # More than 128: nothing came within a second.
        [ $status -eq 0 ] || [ $status -gt 128 ] || break
    done
}
