//! C-230, C-233, C-244, C-245, C-247: weights, drops, limits, and the aggregate state of endpoints.

use std::time::Duration;

use oxds_core::lb::{Connectivity, DropCategory, PerMillion, Weighted, dropped};
use oxds_core::resource::StreamLimit;
use proptest::prelude::*;

/// The first random number that `scale`s to `point` of `whole`.
fn first_of(point: u64, whole: u64) -> u64 {
    let first = (u128::from(point) << 64).div_ceil(u128::from(whole));
    u64::try_from(first).unwrap()
}

proptest! {
    /// Every item is picked for a range of random numbers, in order. The ranges cover all 2⁶⁴ numbers, and the size of
    /// each is the item's share, within one number.
    #[test]
    fn c244_each_item_is_picked_for_its_share(
        weights in proptest::collection::vec(prop_oneof![0..4_u32, any::<u32>()], 1..8)
    ) {
        let whole: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        let weighted = Weighted::new(weights.iter().copied().zip(0..));
        prop_assume!(whole > 0);
        let weighted = weighted.unwrap();
        let mut start = 0;
        for (weight, item) in weights.iter().zip(0..).filter(|(weight, _)| **weight > 0) {
            let end = start + u64::from(*weight);
            let first = first_of(start, whole);
            let last = if end == whole { u64::MAX } else { first_of(end, whole) - 1 };
            prop_assert_eq!(*weighted.pick(first), item);
            prop_assert_eq!(*weighted.pick(last), item);
            prop_assert_eq!(*weighted.pick(first + (last - first) / 2), item);
            let share = (u128::from(*weight) << 64) / u128::from(whole);
            let size = u128::from(last - first) + 1;
            prop_assert!(size.abs_diff(share) <= 1, "{} of {}", size, share);
            start = end;
        }
    }

    /// A share is hit for that part of all random numbers, from zero on.
    #[test]
    fn c228_share_is_hit_for_its_part_of_random_numbers(share in 1..1_000_000_u32) {
        let limit = first_of(u64::from(share), 1_000_000);
        let share = PerMillion::saturating(share);
        prop_assert!(share.hit(0));
        prop_assert!(share.hit(limit - 1));
        prop_assert!(!share.hit(limit));
        prop_assert!(!share.hit(u64::MAX));
    }
}

#[test]
fn c244_zero_weight_is_never_picked() {
    assert!(Weighted::<u8>::new([]).is_none());
    assert!(Weighted::new([(0, 'a'), (0, 'b')]).is_none());
    let weighted = Weighted::new([(0, 'a'), (5, 'b'), (0, 'c')]).unwrap();
    assert_eq!(weighted.items().collect::<Vec<_>>(), [&'b']);
    for random in [0, u64::MAX] {
        assert_eq!(*weighted.pick(random), 'b');
    }
}

fn drops(shares: &[(&str, u32)]) -> Vec<DropCategory> {
    shares
        .iter()
        .map(|(category, share)| DropCategory {
            category: (*category).into(),
            share: PerMillion::saturating(*share),
        })
        .collect()
}

#[test]
fn c245_drop_categories_are_drawn_in_order() {
    let drops = drops(&[("first", 500_000), ("second", 500_000)]);
    let (hit, miss) = (0, u64::MAX);
    for (randoms, category, drawn) in [
        (vec![hit], Some("first"), 1),
        (vec![miss, hit], Some("second"), 2),
        (vec![miss, miss], None, 2),
    ] {
        let mut rest = randoms.iter().copied();
        let mut count = 0;
        let found = dropped(&drops, || {
            count += 1;
            rest.next().unwrap()
        });
        assert_eq!(found.map(|drop| &*drop.category), category);
        assert_eq!(count, drawn);
    }
}

#[test]
fn c245_zero_and_full_share_ignore_random() {
    for random in [0, 1 << 63, u64::MAX] {
        assert_eq!(dropped(&drops(&[("none", 0)]), || random), None);
        assert_eq!(dropped(&[], || random), None);
        let all = drops(&[("all", 1_000_000)]);
        assert_eq!(dropped(&all, || random), Some(&all[0]));
    }
}

#[test]
fn c233_limit_is_of_route_timeout_route_or_listener() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let limit = |header, route, listener| {
        let route = StreamLimit {
            grpc_timeout_header_max: header,
            max_stream_duration: route,
        };
        route.effective(listener)
    };
    assert_eq!(limit(seconds(1), seconds(2), seconds(3)), seconds(1));
    assert_eq!(limit(None, seconds(2), seconds(3)), seconds(2));
    assert_eq!(limit(None, None, seconds(3)), seconds(3));
    assert_eq!(limit(None, None, None), None);
    // Zero means no limit, and overrides the limits after it.
    assert_eq!(limit(seconds(0), seconds(2), seconds(3)), None);
    assert_eq!(limit(None, seconds(0), seconds(3)), None);
    assert_eq!(limit(None, None, seconds(0)), None);
}

#[test]
fn c247_round_robin_is_ready_if_one_is_failed_if_all_are() {
    use Connectivity::{Connecting, Idle, Ready, TransientFailure};
    for (states, of_all) in [
        (&[][..], TransientFailure),
        (&[TransientFailure, TransientFailure], TransientFailure),
        (&[TransientFailure, Connecting], Connecting),
        (&[Connecting, TransientFailure], Connecting),
        (&[TransientFailure, Idle], Connecting),
        (&[Idle], Connecting),
        (&[TransientFailure, Idle, Ready], Ready),
        (&[Ready, TransientFailure], Ready),
    ] {
        let found = Connectivity::of_round_robin(states.iter().copied());
        assert_eq!(found, of_all, "{states:?}");
    }
}
