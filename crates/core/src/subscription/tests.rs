//! Rules of subscriptions, one scenario each.

use super::*;

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn arcs(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|&name| name.into()).collect()
}

/// Delta subscription after these (subscribe, unsubscribe) requests, with the last change.
fn delta(requests: &[(&[&str], &[&str])]) -> (Subscription, SubscriptionChange) {
    let mut subscription = Subscription::new();
    let mut change = SubscriptionChange::default();
    for (subscribe, unsubscribe) in requests {
        change = subscription.update(&list(subscribe), &list(unsubscribe), true);
    }
    (subscription, change)
}

fn sotw(requests: &[&[&str]], legacy: bool) -> (Subscription, SubscriptionChange) {
    let mut subscription = Subscription::new();
    let mut change = SubscriptionChange::default();
    for names in requests {
        change = subscription.replace(&list(names), legacy);
    }
    (subscription, change)
}

#[test]
fn s1_first_request_without_names_is_a_wildcard() {
    let (subscription, change) = sotw(&[&[]], true);
    assert!(subscription.is_wildcard());
    assert_eq!(change.wildcard, Some(WildcardChange::Gained));
}

#[test]
fn s12_other_types_have_no_legacy_wildcard() {
    let (subscription, change) = sotw(&[&[]], false);
    assert!(!subscription.is_wildcard() && subscription.is_asked());
    assert_eq!(change, SubscriptionChange::default());
    for resource_type in [
        ResourceType::ENDPOINT,
        ResourceType::ROUTE,
        ResourceType::SECRET,
    ] {
        assert!(!has_legacy_wildcard(&resource_type), "{resource_type}");
    }
    assert!(
        has_legacy_wildcard(&ResourceType::CLUSTER)
            && has_legacy_wildcard(&ResourceType::SCOPED_ROUTE)
    );
}

#[test]
fn s13_wildcard_and_names_then_names_then_nothing() {
    let (subscription, _) = sotw(&[&[], &["*", "A"]], true);
    assert!(subscription.is_wildcard() && subscription.has_name("A"));
    let (subscription, change) = sotw(&[&[], &["*", "A"], &["A"]], true);
    assert!(!subscription.is_wildcard() && subscription.has_name("A"));
    assert_eq!(change.wildcard, Some(WildcardChange::Lost));
    let (subscription, change) = sotw(&[&[], &["*", "A"], &["A"], &[]], true);
    assert!(!subscription.is_wildcard() && subscription.is_empty());
    assert_eq!(change.dropped, arcs(&["A"]));
}

#[test]
fn s14_names_then_empty_is_no_wildcard() {
    let (subscription, _) = sotw(&[&["A"], &[]], true);
    assert!(!subscription.is_wildcard() && subscription.is_empty());
}

#[test]
fn s10_resubscribed_name_is_added() {
    let (_, change) = sotw(&[&["A"], &[], &["A"]], false);
    assert_eq!(change.added, arcs(&["A"]));
}

#[test]
fn repeated_sotw_request_changes_nothing() {
    let (_, change) = sotw(&[&["A", "B"], &["B", "A", "A"]], false);
    assert_eq!(change, SubscriptionChange::default());
    let (_, change) = sotw(&[&["*", "A"], &["A", "*"]], false);
    assert_eq!(change, SubscriptionChange::default());
}

#[test]
fn duplicate_names_do_not_hide_a_removal() {
    let (subscription, change) = sotw(&[&["A", "B"], &["A", "A"]], false);
    assert_eq!(change.dropped, arcs(&["B"]));
    assert_eq!(subscription.len(), 1);
}

#[test]
fn s35_delta_name_subscribed_again_is_repeated() {
    let (_, change) = delta(&[(&["A"], &[]), (&["A", "B", "B"], &[])]);
    assert_eq!(
        (change.added, change.repeated),
        (arcs(&["B"]), arcs(&["A"]))
    );
}

#[test]
fn s36_delta_wildcard_subscribed_again_is_repeated() {
    let (_, change) = delta(&[(&["*"], &[]), (&["*"], &[])]);
    assert_eq!(change.wildcard, Some(WildcardChange::Repeated));
    let (_, change) = delta(&[(&[], &[]), (&["*"], &[])]);
    assert_eq!(
        change.wildcard,
        Some(WildcardChange::Repeated),
        "from the legacy wildcard too"
    );
}

#[test]
fn s38_unsubscribing_unknown_name_changes_nothing() {
    let (_, change) = delta(&[(&["A"], &[]), (&[], &["Q"])]);
    assert_eq!(change, SubscriptionChange::default());
}

#[test]
fn s40_legacy_wildcard_then_names_then_nothing() {
    let requests: &[(&[&str], &[&str])] =
        &[(&[], &[]), (&["A"], &[]), (&[], &["*"]), (&[], &["A"])];
    let (subscription, _) = delta(&requests[..2]);
    assert!(subscription.is_wildcard() && subscription.has_name("A"));
    let (subscription, change) = delta(&requests[..3]);
    assert!(!subscription.is_wildcard() && subscription.has_name("A"));
    assert_eq!(change.wildcard, Some(WildcardChange::Lost));
    let (subscription, _) = delta(requests);
    assert!(!subscription.is_wildcard() && subscription.is_empty());
}

#[test]
fn s41_name_in_both_lists_is_not_subscribed() {
    let (subscription, change) = delta(&[(&["*", "A"], &["*", "A"])]);
    assert!(!subscription.is_wildcard() && subscription.is_empty());
    assert_eq!(change, SubscriptionChange::default());
}
