# shellcheck shell=bash
# Programs in the background, for the scripts that run examples and documentation, which read this file. Sets `work`, a folder that
# ends with the script, as the programs do; after a failure their logs are printed.
: "${oxds:?the program}"
work=$(mktemp -d)
trap 'ended $?' EXIT

ended() { # CODE
    local running
    mapfile -t running < <(jobs -p)
    ((${#running[@]} == 0)) || kill "${running[@]}" 2>/dev/null || true
    wait
    (($1 == 0)) || find "$work" -maxdepth 1 -name '*.log' -exec tail -v -n 20 {} + >&2
    rm -r "$work"
}

start() { # NAME COMMAND…: its output goes to $work/NAME, its errors to $work/NAME.log
    "${@:2}" >"$work/$1" 2>"$work/$1.log" &
}

until_true() { # COMMAND…: repeats it until it succeeds, for 20 s at most
    local _
    for _ in {1..200}; do
        "$@" && return
        sleep 0.1
    done
    echo "not within 20 s: $*" >&2
    return 1
}

serve() { # ARGUMENTS…: `oxds serve` on free ports; sets the addresses `grpc` and `http`
    start serve "$oxds" serve "$@" --grpc 127.0.0.1:0 --http 127.0.0.1:0
    until_true grep -q '^http ' "$work/serve"
    grpc=$(sed -n 's/^grpc //p' "$work/serve")
    http=$(sed -n 's/^http //p' "$work/serve")
    export grpc http
}
