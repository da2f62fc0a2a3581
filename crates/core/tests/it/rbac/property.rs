//! Trees of and, or and not, against an evaluator over their text.

use proptest::prelude::*;

use super::{Case, is_from, permits};
use crate::support::cases::cases;

/// Condition of a permission or a principal.
#[derive(Debug, Clone)]
enum Tree {
    /// The header `b<n>` is present.
    Bit(u8),
    Metadata(bool),
    Any,
    Not(Box<Tree>),
    And(Vec<Tree>),
    Or(Vec<Tree>),
}

const NAMES: [&str; 4] = ["b0", "b1", "b2", "b3"];

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        4 => (0..4_u8).prop_map(Tree::Bit),
        1 => any::<bool>().prop_map(Tree::Metadata),
        1 => Just(Tree::Any),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|tree| Tree::Not(Box::new(tree))),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Tree::And),
            prop::collection::vec(inner, 0..4).prop_map(Tree::Or),
        ]
    })
}

impl Tree {
    /// Returns the fields of the message. `words` are the names of the fields of and, or, not, and of the elements.
    fn text(&self, words: [&str; 4]) -> String {
        let [and, or, not, element] = words;
        let set = |field: &str, trees: &[Self]| {
            let elements = trees
                .iter()
                .map(|tree| format!("{element} {{ {} }} ", tree.text(words)));
            format!("{field} {{ {} }}", elements.collect::<String>())
        };
        match self {
            Self::Bit(bit) => format!(
                "header {{ name: '{}' present_match: true }}",
                NAMES[usize::from(*bit)]
            ),
            Self::Metadata(invert) => format!("metadata {{ invert: {invert} }}"),
            Self::Any => "any: true".to_owned(),
            Self::Not(tree) => format!("{not} {{ {} }}", tree.text(words)),
            Self::And(trees) => set(and, trees),
            Self::Or(trees) => set(or, trees),
        }
    }

    fn holds(&self, bits: u8) -> bool {
        match self {
            Self::Bit(bit) => bits & (1 << bit) != 0,
            Self::Metadata(invert) => *invert,
            Self::Any => true,
            Self::Not(tree) => !tree.holds(bits),
            // By counting, so that the order and early ends cannot matter.
            Self::And(trees) => trees.iter().filter(|tree| tree.holds(bits)).count() == trees.len(),
            Self::Or(trees) => trees.iter().filter(|tree| tree.holds(bits)).count() > 0,
        }
    }
}

fn case(bits: u8) -> Case {
    let mut case = Case::default();
    let set = (0..4_u8).filter(|bit| bits & (1 << bit) != 0);
    case.headers
        .0
        .extend(set.map(|bit| (NAMES[usize::from(bit)], "")));
    case
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn c238_trees_of_rules_hold_as_written(tree in tree(), bits in 0..16_u8) {
        let case = case(bits);
        let expected = tree.holds(bits);
        let permission = tree.text(["and_rules", "or_rules", "not_rule", "rules"]);
        prop_assert_eq!(permits(&permission, &case), expected, "{}", permission);
        let principal = tree.text(["and_ids", "or_ids", "not_id", "ids"]);
        prop_assert_eq!(is_from(&principal, &case), expected, "{}", principal);
    }
}
