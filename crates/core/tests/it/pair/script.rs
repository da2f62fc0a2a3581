//! Operations as text: `"Reconnect 39; C1=0>E1 L0=0>R3; Pass 118; -C1"`.

use oxds_types::ResourceType;

use super::{Edited, Op, letter};
use crate::support::model::TYPES;

/// Reads operations, separated by `;`. Any other text is a change set: `C1=0>E1` sets cluster 1 to content 0, which
/// needs assignment 1, and `C1=0>E1,S2` secret 2 besides; clients NACK the contents `bad` and `broken`; `-C1` removes
/// the cluster.
pub(super) fn script(text: &str) -> Vec<Op> {
    text.split(';').map(|op| operation(op.trim())).collect()
}

fn operation(text: &str) -> Op {
    let mut words = text.split(' ');
    let word = words.next().unwrap_or_default();
    let mut numbers = words.map(|word| word.parse::<u64>().expect("a number"));
    match word {
        "Pass" => Op::Pass(numbers.next().expect("milliseconds")),
        "Reconnect" => Op::Reconnect(numbers.collect()),
        "Disconnect" => Op::Disconnect,
        "Stall" => Op::Stall,
        "Want" => Op::Want(numbers.next().expect("a listener") as usize),
        "AskAgain" => Op::AskAgain(numbers.next().expect("a resource type") as usize),
        "Eager" => Op::Eager,
        _ => Op::Change(text.split(' ').map(edited).collect()),
    }
}

fn edited(text: &str) -> Edited {
    // The content says whether there is a TTL.
    let text = text.split('@').next().unwrap_or(text);
    let (resource, needs) = text.split_once('>').unwrap_or((text, ""));
    let (name, content) = match resource.strip_prefix('-') {
        Some(name) => (name, None),
        None => {
            let (name, content) = resource.split_once('=').expect("name=content");
            (name, Some(content))
        }
    };
    let of = |resource_type: &ResourceType| name.starts_with(letter(resource_type));
    let number = |name: &str| name[1..].parse().expect("a letter and a number");
    let (secrets, needs): (Vec<_>, Vec<_>) = needs
        .split(',')
        .filter(|n| !n.is_empty())
        .partition(|name| name.starts_with('S'));
    Edited {
        resource_type: TYPES.iter().position(of).expect("a resource type"),
        name: number(name),
        content: content.map(|content| match content {
            "bad" => 9,
            "broken" => 8,
            content => content.parse().expect("a number"),
        }),
        needs: needs.into_iter().map(number).collect(),
        secret: secrets.first().map(|name| number(name)),
    }
}
