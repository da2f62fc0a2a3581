//! Elements of the descriptors, and the decisions about them.

use std::collections::BTreeSet;

use super::*;
use crate::descriptor;
use crate::runtime::{Layer, Snapshot, Source};

const SOFT: &str = "envoy.config.cluster.v3.Cluster.http2_protocol_options";
const HARD: &str = "envoy.config.route.v3.RateLimit.Action.dynamic_metadata";

fn element(name: &str) -> Element {
    let found = all().into_iter().find(|one| one.name() == name);
    found.unwrap_or_else(|| panic!("{name} is not deprecated"))
}

fn runtime(keys: &[(&str, bool)]) -> Snapshot {
    let mut layer = Layer::new("test", Source::Static);
    for (key, value) in keys {
        layer.set((*key).to_owned(), (*value).into()).unwrap();
    }
    Snapshot::from_layers(vec![layer])
}

fn verdict(name: &str, keys: &[(&str, bool)]) -> Verdict {
    let policy = Policy::new(runtime(keys), Clock::default());
    policy.decide(&element(name)).verdict
}

/// The three fields and two enum values that Envoy 1.40 disallows (spec 1.8).
#[test]
fn v45_five_elements_of_the_api_are_disallowed() {
    let all = all();
    let names: BTreeSet<_> = all
        .iter()
        .filter(|one| one.is_disallowed())
        .map(Element::name)
        .collect();
    assert_eq!(
        names.into_iter().collect::<Vec<_>>(),
        [
            "envoy.config.core.v3.ApiConfigSource.ApiType.DEPRECATED_AND_UNAVAILABLE_DO_NOT_USE",
            HARD,
            "envoy.config.trace.v3.DynamicOtConfig.config",
            "envoy.config.trace.v3.DynamicOtConfig.library",
            "envoy.config.trace.v3.ZipkinConfig.CollectorEndpointVersion.DEPRECATED_AND_UNAVAILABLE_DO_NOT_USE",
        ]
    );
    assert_eq!(element(SOFT).since(), Some("3.0"));
    // protobuf: an enum value is a sibling of its enum.
    assert_eq!(
        element("envoy.config.core.v3.ApiVersion.V2").runtime_key(),
        "envoy.deprecated_features:envoy.config.core.v3.V2"
    );
}

/// Every deprecated element of Envoy's API has a row in the table of replacements, and every replacement exists.
#[test]
fn v44_every_deprecated_element_has_a_known_replacement() {
    let all = all();
    let names: BTreeSet<&str> = all
        .iter()
        .map(Element::name)
        .filter(|name| !name.starts_with("google.protobuf."))
        .collect();
    let rows: Vec<_> = replacements::rows().collect();
    let listed: BTreeSet<&str> = rows.iter().map(|(element, _)| *element).collect();
    assert_eq!(listed.len(), rows.len(), "an element has two rows");
    assert_eq!(names, listed);
    let pool = descriptor::pool();
    for (element, replacement) in rows {
        let Replacement::Element(new) = replacement else {
            continue;
        };
        let (parent, last) = new.rsplit_once('.').unwrap();
        let is_field = pool
            .get_message_by_name(parent)
            .is_some_and(|message| message.get_field_by_name(last).is_some());
        let is_value = pool
            .get_enum_by_name(parent)
            .is_some_and(|one| one.get_value_by_name(last).is_some());
        let is_message = pool.get_message_by_name(new).is_some();
        assert!(is_field || is_value || is_message, "{element} -> {new}");
    }
}

#[test]
fn v44_deprecated_element_is_only_warned_of() {
    assert_eq!(verdict(SOFT, &[]), Verdict::Warned);
    let policy = Policy::default();
    assert!(policy.decide(&element(SOFT)).is_finding());
}

/// The measurements of the real Envoy in spec 1.9, and what its code adds.
#[test]
fn v45_runtime_keys_decide_in_the_order_of_envoy() {
    let own = |name: &str| format!("envoy.deprecated_features:{name}");
    let (soft, hard) = (own(SOFT), own(HARD));
    let (all, fail) = (
        "envoy.features.enable_all_deprecated_features",
        "envoy.features.fail_on_any_deprecated_feature",
    );
    let by_phase = Verdict::Disallowed(Cause::Phase);
    let by_runtime = Verdict::Disallowed(Cause::Runtime);
    assert_eq!(verdict(HARD, &[]), by_phase);
    assert_eq!(verdict(HARD, &[(&hard, true)]), Verdict::Overridden);
    assert_eq!(verdict(HARD, &[(all, true)]), Verdict::Overridden);
    assert_eq!(verdict(HARD, &[(all, true), (&hard, false)]), by_phase);
    assert_eq!(verdict(HARD, &[(&soft, true)]), by_phase);
    assert_eq!(verdict(SOFT, &[(fail, true)]), by_runtime);
    assert_eq!(
        verdict(SOFT, &[(fail, true), (&soft, true)]),
        Verdict::Overridden
    );
    assert_eq!(
        verdict(SOFT, &[(fail, true), (all, true)]),
        Verdict::Overridden
    );
    assert_eq!(verdict(SOFT, &[(&soft, false)]), by_runtime);
    assert_eq!(verdict(SOFT, &[(all, true)]), Verdict::Warned);
}

#[test]
fn v45_undecided_policy_only_warns() {
    let runtime = runtime(&[("envoy.features.fail_on_any_deprecated_feature", true)]);
    let policy = Policy::undecided().with_runtime(runtime);
    for name in [SOFT, HARD] {
        assert_eq!(
            policy.decide(&element(name)).verdict,
            Verdict::Warned,
            "{name}"
        );
    }
}

#[test]
fn v43_clock_moves_an_element_through_its_phases() {
    let element = element(SOFT);
    let decide = |phase| {
        let entry = Entry {
            phase,
            since: Some("2027-03-31".to_owned()),
            until: Some("2027-06-30".to_owned()),
            replacement: Some(Ok("shop.v1.New".to_owned())),
        };
        let clock = Clock::new([(SOFT.to_owned(), entry)]);
        Policy::default().with_clock(clock).decide(&element)
    };
    assert!(!decide(Phase::Announced).is_finding());
    let warned = decide(Phase::Warned);
    assert_eq!(warned.verdict, Verdict::Warned);
    let element = Box::leak(Box::new(element));
    let text = DeprecatedUse {
        element,
        is_default: false,
        decision: warned,
    };
    assert_eq!(
        text.to_string(),
        format!("deprecated field {SOFT}: use shop.v1.New; disallowed from 2027-06-30")
    );
    let decision = Policy::default()
        .with_clock(Clock::new([(
            SOFT.to_owned(),
            Entry {
                phase: Phase::Disallowed,
                since: None,
                until: None,
                replacement: None,
            },
        )]))
        .decide(element);
    assert!(decision.is_error());
    let text = DeprecatedUse {
        element,
        is_default: false,
        decision,
    };
    assert_eq!(
        text.to_string(),
        format!(
            "deprecated field {SOFT} is disallowed: use \
             envoy.extensions.upstreams.http.v3.HttpProtocolOptions.ExplicitHttpConfig.http2_protocol_options; to allow it \
             for now, set the runtime key \"envoy.deprecated_features:{SOFT}\": true"
        )
    );
}
