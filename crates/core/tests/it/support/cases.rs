//! Which cases a property is tried with.

use proptest::test_runner::{Config, RngSeed};

/// 256 cases, the same each time, so that whether a change passes is no matter of luck; or, to look for what nobody has
/// seen yet, as many others as `PROPTEST_CASES` says.
#[expect(
    clippy::disallowed_methods,
    reason = "it is what proptest itself reads"
)]
pub(crate) fn cases() -> Config {
    let mut config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.rng_seed = RngSeed::Fixed(0x0d5);
    }
    config
}
