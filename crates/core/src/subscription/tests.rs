//! The rules, one scenario each.

use super::*;

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn arcs(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|&name| name.into()).collect()
}

/// A delta subscription after these (subscribe, unsubscribe) requests.
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
fn s1_a_first_request_without_names_asks_for_all() {
    let (subscription, change) = sotw(&[&[]], true);
    assert!(subscription.is_wildcard());
    assert_eq!(change.wildcard, Some(WildcardChange::Gained));
}

#[test]
fn s12_a_type_without_the_legacy_wildcard_is_not_asked_for() {
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
fn s13_star_and_names_then_names_then_nothing() {
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
fn s14_names_from_the_start_and_none_later_is_no_wildcard() {
    let (subscription, _) = sotw(&[&["A"], &[]], true);
    assert!(!subscription.is_wildcard() && subscription.is_empty());
}

#[test]
fn s10_a_name_that_left_and_came_back_is_new() {
    let (_, change) = sotw(&[&["A"], &[], &["A"]], false);
    assert_eq!(change.added, arcs(&["A"]));
}

#[test]
fn sotw_repeats_itself_without_meaning_anything_by_it() {
    let (_, change) = sotw(&[&["A", "B"], &["B", "A", "A"]], false);
    assert_eq!(change, SubscriptionChange::default());
    let (_, change) = sotw(&[&["*", "A"], &["A", "*"]], false);
    assert_eq!(change, SubscriptionChange::default());
}

#[test]
fn duplicates_do_not_hide_that_a_name_left() {
    let (subscription, change) = sotw(&[&["A", "B"], &["A", "A"]], false);
    assert_eq!(change.dropped, arcs(&["B"]));
    assert_eq!(subscription.len(), 1);
}

#[test]
fn s35_delta_says_a_name_again() {
    let (_, change) = delta(&[(&["A"], &[]), (&["A", "B", "B"], &[])]);
    assert_eq!(
        (change.added, change.repeated),
        (arcs(&["B"]), arcs(&["A"]))
    );
}

#[test]
fn s36_delta_says_star_again() {
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
fn s38_unsubscribing_what_was_not_asked_for_is_nothing() {
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
fn s41_subscribing_and_unsubscribing_at_once_is_nothing() {
    let (subscription, change) = delta(&[(&["*", "A"], &["*", "A"])]);
    assert!(!subscription.is_wildcard() && subscription.is_empty());
    assert_eq!(change, SubscriptionChange::default());
}
