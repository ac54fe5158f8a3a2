# Shorthands for the commands in CONTRIBUTING.md. Optional: each recipe is a line or two of plain shell.

set shell := ["bash", "-euo", "pipefail", "-c"]

# Lists the recipes.
[private]
default:
    @just --list --unsorted

# Builds everything in release mode.
build:
    cargo build --release --features jemalloc

# Runs all tests, as in the README.
test *ARGS:
    cargo test --workspace {{ ARGS }}

# Runs all tests in the long form, as CI does.
test-long *ARGS:
    TIDEGATE_LONG_TESTS=1 cargo test --workspace {{ ARGS }}

# Runs all CI checks, or only some steps, such as `just ci lint purity`.
ci *STEPS:
    .ci/run {{ STEPS }}

# Formats the code.
fmt:
    cargo fmt --all

# Runs clippy, with warnings as errors.
lint:
    cargo clippy --workspace --all-targets -- -D warnings

# Checks that the pure crates have no side effects, and that dependencies point down.
purity:
    scripts/check-purity

# Checks the language of comments and documentation, and the links and the summary of the book.
words:
    scripts/check-words
    scripts/check-docs

# Checks that the files of each crate do not import each other in a cycle.
cycles:
    scripts/check-cycles

# Writes the generated pages in docs/reference.
reference:
    TIDEGATE_WRITE_REFERENCE=1 cargo test -p tidegate-cli --bin tidegate reference

# Builds the book in docs/ with mdBook, which it installs if necessary.
book:
    command -v mdbook >/dev/null || cargo install mdbook --locked
    mdbook build docs --dest-dir ../target/book

# Checks dependencies: bans, licenses, sources.
deny:
    cargo deny check bans licenses sources

# Checks dependencies against the advisory database. Requires network access.
audit:
    cargo deny check advisories

# Builds the API documentation and opens it.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --open

# Runs the benchmarks.
bench *ARGS:
    cargo build --release --features jemalloc
    cargo bench --package tidegate-testkit --features jemalloc --bench engine -- {{ ARGS }}

# Compares syncs on a real control plane with kubectl and with a plain loop of requests.
bench-kube *ARGS:
    cargo build --release --features jemalloc
    cargo bench --package tidegate-testkit --features jemalloc --bench kube -- {{ ARGS }}

# Measures a service with many Applications: all benchmarks, or some of rollout, unchanged, storm, restart, kube, page; kube=200 sets the number.
bench-service *ARGS:
    cargo build --release --features jemalloc
    cargo bench --package tidegate-testkit --features jemalloc --bench service -- {{ ARGS }}

# Simulates N operations with random plans, faults and crashes.
simulate N="10000":
    TIDEGATE_SIM_SEEDS={{ N }} cargo test --release --package tidegate-testkit --test simulation -- --nocapture

# Runs the property tests of the state machine with N random seeds instead of the fixed seed.
explore N="20":
    for seed in $(seq {{ N }}); do export PROPTEST_RNG_SEED=$RANDOM$RANDOM; echo "PROPTEST_RNG_SEED=$PROPTEST_RNG_SEED"; \
      cargo test --quiet --workspace --test lifecycle --test fleet random; done

# Replays one seed of the simulation and prints every step.
simulate-seed SEED:
    TIDEGATE_SIM_SEED={{ SEED }} cargo test --release --package tidegate-testkit --test simulation -- --nocapture

# Runs N simulations of a whole service, with virtual time.
simulate-service N="200":
    TIDEGATE_SERVICE_SEEDS={{ N }} cargo test --release --package tidegate-testkit --test service no_seed -- --nocapture

# Replays one seed of the service simulation and prints the actions of its users.
simulate-service-seed SEED:
    TIDEGATE_SERVICE_SEED={{ SEED }} cargo test --release --package tidegate-testkit --test service no_seed -- --nocapture

# Crashes the engine before and after every append and every cluster call, and a service before and after every append and write.
crash:
    TIDEGATE_LONG_TESTS=1 cargo test --release --package tidegate-testkit --test crash -- --nocapture
    TIDEGATE_SERVICE_CRASH_EVERY=1 cargo test --release --package tidegate-testkit --test service processes_die -- --nocapture

# Corrupts N state directories at random, in every kind of file.
damage N="10000":
    TIDEGATE_DAMAGE_TRIALS={{ N }} cargo test --release --package tidegate-oplog --test log random_damage -- --nocapture
    TIDEGATE_DAMAGE_TRIALS={{ N }} cargo test --release --package tidegate-cli --test e2e damage -- --nocapture

# Injects N faults into three services that share an operation log in PostgreSQL: kills, suspensions, network faults, database restarts, clock jumps.
nemesis N="1000":
    TIDEGATE_FAULT_ROUNDS={{ N }} TIDEGATE_REQUIRE_POSTGRES=1 cargo test --package tidegate-cli --test e2e-kube fault_injection -- --nocapture

# Tests N invalid inputs of each kind: webhooks, resources, sync windows, paths, log records, manifests.
fuzz N="100000":
    TIDEGATE_FUZZ_CASES={{ N }} cargo test --release --workspace --lib --test fuzz fuzz_ -- --nocapture

# Runs all or the named fuzz targets with coverage guidance, each for SECONDS.
fuzz-coverage SECONDS="60" *TARGETS:
    fuzz/run {{ SECONDS }} {{ TARGETS }}

# Renders N random templates with Tidegate and with Go. Fetches Go with apt-get and pip if necessary.
go-templates N="200000":
    TIDEGATE_GO_TEMPLATES=$(scripts/template-table/program --fetch) TIDEGATE_GO_CASES={{ N }} \
      cargo test --release --workspace --test differential

# Starts a control plane as in the tests, and prints how to connect kubectl and tidegate.
control-plane:
    cargo run --package tidegate-testkit --example control-plane

# Deploys the example shop to a simulated cluster.
demo:
    cargo run -- sync examples/shop --app shop --sim

# Deploys the shop, kills the engine halfway, explains the state of the operation, and resumes it.
demo-kill:
    #!/usr/bin/env bash
    set -euo pipefail
    cargo build --release
    tidegate="${CARGO_TARGET_DIR:-target}/release/tidegate"
    export TIDEGATE_STATE_DIR
    TIDEGATE_STATE_DIR=$(mktemp -d)
    trap 'rm -rf "$TIDEGATE_STATE_DIR"' EXIT
    "$tidegate" sync examples/shop --app shop --sim &
    engine=$!
    sleep 5
    echo "--- kill -9"
    kill -9 "$engine"
    wait "$engine" || true
    "$tidegate" explain shop
    echo "--- resume"
    "$tidegate" resume --all --sim
    echo "--- every write the cluster has received"
    "$tidegate" sim audit --state-dir "$TIDEGATE_STATE_DIR"
