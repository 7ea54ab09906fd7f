# What is done often. `just` alone lists it.

default:
    @just --list

# Format, lints and all tests: what has to pass before anything is kept.
test:
    ./test

# The benchmarks beside their peers; `just bench --quick` takes under a minute of measuring.
bench *ARGS:
    cargo run --release -p bench -- engine {{ARGS}}

# The server beside Redis, which has to be installed.
bench-server *ARGS:
    cargo run --release -p bench -- server {{ARGS}}

# Proves that nothing acknowledged is lost; `just prove --planted`.
prove *ARGS:
    ./prove {{ARGS}}

# Kills a database with 16 writers over and over; `just kill --cycles 20 --seed 7`.
kill *ARGS:
    cargo run --release -p mainstay-sim --bin kill -- {{ARGS}}

# Records what threads are told and checks that one order explains it; `just histories --operations 5000000 --seed 7`.
histories *ARGS:
    cargo run --release -p mainstay-sim --bin histories -- {{ARGS}}
# Loads a database for ten minutes, draws soak.svg; nothing may grow: `just soak --seconds 3600`.
soak *ARGS:
    cargo run --release -p mainstay-sim --bin prove -- soak {{ARGS}}

fmt:
    cargo fmt --all

# The documentation of the library.
doc:
    cargo doc --no-deps -p mainstay -p mainstay-model --open
