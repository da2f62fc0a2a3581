//! Cost of an evaluation.

use std::borrow::Cow;
use std::cell::Cell;

use allocation_counter::measure;
use oxds_core::lb::Headers;
use oxds_core::rbac::Call;

use super::{ANY_PERMISSION, Case, policy, rules};

const POLICIES: usize = 10_000;

/// Header `n`, and the number of times that any header was looked up.
struct Counted {
    value: String,
    lookups: Cell<usize>,
}

impl Headers for Counted {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        self.lookups.set(self.lookups.get() + 1);
        (name == "n").then(|| self.value.as_str().into())
    }
}

#[test]
fn c238_ten_thousand_policies_allocate_nothing_per_call() {
    let text: String = (0..POLICIES)
        .map(|n| {
            let principal =
                format!("principals {{ header {{ name: 'n' exact_match: '{n:05}' }} }}");
            policy(&format!("p{n:05}"), ANY_PERMISSION, &principal)
        })
        .collect();
    let config = rules(&text);
    let case = Case::default();
    for (value, allowed, lookups) in [
        ("00000", true, 1),
        ("09999", true, POLICIES),
        ("other", false, POLICIES),
    ] {
        let headers = Counted {
            value: value.to_owned(),
            lookups: Cell::new(0),
        };
        let call = Call {
            headers: &headers,
            ..case.call()
        };
        let took = measure(|| {
            assert_eq!(config.evaluate(&call).is_allowed, allowed);
        });
        assert_eq!(took.count_total, 0, "{value}");
        assert_eq!(headers.lookups.get(), lookups, "one per policy: {value}");
    }
}
