//! Random changes: the client has everything at the end, and each change is in a step, or is named as not requested.

use std::collections::BTreeSet;
use std::sync::Arc;

use oxds_core::preview::Changes;
use oxds_core::snapshot::{Resource, ResourceKey};
use oxds_types::ResourceType;
use proptest::prelude::*;

use super::{CDS, EDS, LDS, RDS, lines, resource, sent, state};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Resources of a type with random contents, each with random references to the next type.
fn all_of_type(
    of: ResourceType,
    to: Option<ResourceType>,
) -> impl Strategy<Value = Vec<Arc<Resource>>> {
    let one = (any::<bool>(), 0..3u8, any::<[bool; 4]>());
    prop::collection::vec(one, 4).prop_map(move |all| {
        let made = all
            .into_iter()
            .zip(NAMES)
            .filter(|((exists, ..), _)| *exists);
        made.map(|((_, content, refers), name)| {
            let targets = NAMES.iter().zip(refers).filter(|(_, refers)| *refers);
            let references: Vec<_> = targets
                .filter_map(|(target, _)| Some((to.clone()?, *target)))
                .collect();
            // The content says what it refers to, as a real one does.
            let text = format!("{name}={content}{refers:?}");
            resource(&of, &text, &references)
        })
        .collect()
    })
}

fn any_state() -> impl Strategy<Value = Vec<Arc<Resource>>> {
    let types = (
        all_of_type(CDS, Some(EDS)),
        all_of_type(EDS, None),
        all_of_type(LDS, Some(RDS)),
        all_of_type(RDS, Some(CDS)),
    );
    types.prop_map(|(a, b, c, d)| [a, b, c, d].concat())
}

proptest! {
    #[test]
    fn s51_plan_ends_with_everything_at_the_client(old in any_state(), new in any_state()) {
        let sending = sent(&old, &new);
        prop_assert!(sending.is_complete, "{:#?}", lines(&sending));
        let (old, new) = (state(&old), state(&new));
        let changed = Changes::between(&old, &new).keys(None);
        let mut sent_keys: BTreeSet<ResourceKey> = BTreeSet::new();
        for step in &sending.steps {
            let names = step.resources.iter().map(|one| &one.name).chain(&step.removed);
            for name in names {
                sent_keys.insert((step.resource_type.clone(), Arc::clone(name)));
            }
        }
        for key in changed {
            // A name that the client unsubscribes from needs no removal.
            let is_gone = !new.of_all_nodes.contains_key(&key) && [EDS, RDS].contains(&key.0);
            let is_said = sent_keys.contains(&key) || sending.not_requested.contains(&key);
            prop_assert!(is_said || is_gone, "{key:?}: {:#?}", lines(&sending));
        }
    }

    #[test]
    fn s51_equal_states_need_no_response(state in any_state()) {
        prop_assert_eq!(sent(&state, &state).steps.len(), 0);
    }
}
