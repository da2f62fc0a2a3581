//! A session against a model client: after any operations, once the link heals and time passes, the client has what
//! the server has for it. `found` keeps the sequences that the properties found.

mod found;
pub(crate) mod fuzz;
mod script;

use std::time::Duration;

use oxds_core::snapshot::Protocol;
use oxds_types::ResourceType;
use proptest::prelude::*;

use crate::support::{
    Edit,
    cases::{fixed_cases, random_cases},
    link::Link,
    model::{Rejects, Style, TYPES},
};

/// One operation.
#[derive(Clone)]
enum Op {
    /// A change set, atomic.
    Change(Vec<Edited>),
    /// Milliseconds.
    Pass(u64),
    /// The link breaks; a new one has these delays.
    Reconnect(Vec<u64>),
    /// The link breaks.
    Disconnect,
    /// The client stops or resumes reading.
    Stall,
    /// By name: the application starts or stops using this listener.
    Want(usize),
    /// The client subscribes again to a resource of this type that it lost.
    AskAgain(usize),
    /// The client starts or stops to send requests before the ACK that caused them.
    Eager,
}

#[derive(Debug, Clone)]
struct Edited {
    resource_type: usize,
    name: usize,
    /// `None`: removed.
    content: Option<u8>,
    needs: Vec<usize>,
    /// Clusters and listeners: a secret.
    secret: Option<usize>,
}

const NAMES: usize = 4;

/// Message limit, in bytes, with room for one resource or two removals.
const TIGHT: usize = 256 + 20;

/// The form that [`script`](script::script) reads.
impl std::fmt::Debug for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Change(edits) => {
                let texts: Vec<_> = edits.iter().map(|edited| edited.text(true)).collect();
                f.write_str(&texts.join(" "))
            }
            Self::Pass(ms) => write!(f, "Pass {ms}"),
            Self::Reconnect(delays) => {
                f.write_str("Reconnect")?;
                delays.iter().try_for_each(|ms| write!(f, " {ms}"))
            }
            Self::Disconnect => f.write_str("Disconnect"),
            Self::Stall => f.write_str("Stall"),
            Self::Want(listener) => write!(f, "Want {listener}"),
            Self::AskAgain(resource_type) => write!(f, "AskAgain {resource_type}"),
            Self::Eager => f.write_str("Eager"),
        }
    }
}

impl Edited {
    /// The form that [`Edit::set`] takes.
    fn text(&self, bad: bool) -> String {
        let resource_type = &TYPES[self.resource_type];
        let name = format!("{}{}", letter(resource_type), self.name);
        let Some(content) = self.content else {
            return format!("-{name}");
        };
        let most = match *resource_type {
            ResourceType::ENDPOINT | ResourceType::SECRET => 0,
            ResourceType::ROUTE => 2,
            _ => 1,
        };
        let needs = self.needs.iter().take(most);
        let needs = needs.map(|n| format!("{}{n}", needed(resource_type)));
        let has_secrets = [ResourceType::CLUSTER, ResourceType::LISTENER].contains(resource_type);
        let secret = self.secret.filter(|_| has_secrets);
        let needs: Vec<_> = needs.chain(secret.map(|n| format!("S{n}"))).collect();
        let content = match content {
            9 if bad => "bad".to_owned(),
            8 => "broken".to_owned(),
            n => n.to_string(),
        };
        let arrow = if needs.is_empty() { "" } else { ">" };
        // Two of the contents have a TTL.
        let ttl = match self.content {
            Some(2) => "@10",
            Some(3) => "@60",
            _ => "",
        };
        format!("{name}={content}{arrow}{}{ttl}", needs.join(","))
    }

    fn apply(&self, edit: Edit, bad: bool) -> Edit {
        edit.set(&TYPES[self.resource_type], &self.text(bad))
    }
}

fn letter(resource_type: &ResourceType) -> char {
    match *resource_type {
        ResourceType::CLUSTER => 'C',
        ResourceType::ENDPOINT => 'E',
        ResourceType::LISTENER => 'L',
        ResourceType::SECRET => 'S',
        _ => 'R',
    }
}

fn needed(resource_type: &ResourceType) -> char {
    match *resource_type {
        ResourceType::LISTENER => 'R',
        ResourceType::ROUTE => 'C',
        _ => 'E',
    }
}

fn edited() -> impl Strategy<Value = Edited> {
    let content = prop_oneof![1 => Just(None), 6 => (0..4u8).prop_map(Some), 1 => Just(Some(9))];
    (
        0..TYPES.len(),
        0..NAMES,
        content,
        prop::collection::btree_set(0..NAMES, 0..3),
        prop::option::of(0..NAMES),
    )
        .prop_map(|(resource_type, name, content, needs, secret)| Edited {
            resource_type,
            name,
            content,
            needs: needs.into_iter().collect(),
            secret,
        })
}

fn op(gentle: bool) -> impl Strategy<Value = Op> {
    let change = prop::collection::vec(edited(), 1..6).prop_map(Op::Change);
    let (rough, pass) = if gentle {
        (0, 0..200u64)
    } else {
        (1, 0..20_000)
    };
    prop_oneof![
        8 => change,
        6 => pass.prop_map(Op::Pass),
        2 => prop::collection::vec(0..80u64, 4).prop_map(Op::Reconnect),
        1 => Just(Op::Disconnect),
        rough => Just(Op::Stall),
        2 => (0..NAMES).prop_map(Op::Want),
        1 => (0..TYPES.len()).prop_map(Op::AskAgain),
        1 => Just(Op::Eager),
    ]
}

fn run(mut link: Link, ops: &[Op], bad: bool) {
    play(&mut link, ops, bad);
    heal(&mut link);
    converge(&mut link);
}

/// Lets the client read and connect.
fn heal(link: &mut Link) {
    link.stalled = false;
    if link.wires.is_empty() {
        link.connect(&[7]);
    }
}

/// Lets time pass, and compares both ends.
fn converge(link: &mut Link) {
    link.pass(Duration::from_secs(300));
    link.settle();
    link.check_converged();
}

fn play(link: &mut Link, ops: &[Op], bad: bool) {
    for op in ops {
        match op {
            Op::Change(edits) => {
                let edit = edits
                    .iter()
                    .fold(Edit::default(), |edit, one| one.apply(edit, bad));
                link.world.apply(edit);
                for edited in edits {
                    link.client
                        .forgive(&TYPES[edited.resource_type], &edited.text(bad));
                }
                link.serve();
            }
            Op::Pass(ms) => link.pass(Duration::from_millis(*ms)),
            Op::Reconnect(delays) => {
                link.disconnect();
                link.connect(delays);
            }
            Op::Disconnect => link.disconnect(),
            Op::Stall => link.stalled = !link.stalled,
            Op::Want(listener) => {
                let name = format!("L{listener}");
                if !link.client.wanted.remove(&name) {
                    link.client.wanted.insert(name);
                }
                let requests = if link.wires.is_empty() {
                    Vec::new()
                } else {
                    link.client.ask()
                };
                link.send(requests);
            }
            Op::AskAgain(resource_type) => {
                let open = !link.wires.is_empty();
                let requests = if open {
                    link.client.ask_again(&TYPES[*resource_type])
                } else {
                    Vec::new()
                };
                link.send(requests);
            }
            Op::Eager => link.client.eager = !link.client.eager,
        }
    }
}

/// Operations for a client that NACKs as Envoy does.
fn envoy_ops() -> impl Strategy<Value = Vec<Op>> {
    ops(false).prop_map(for_envoy)
}

/// Replaces the contents that have a TTL: the server does not know which copies a client has that NACKs as Envoy does.
fn for_envoy(mut ops: Vec<Op>) -> Vec<Op> {
    let content = |content| match content {
        2 => 8,
        3 => 0,
        other => other,
    };
    for op in &mut ops {
        if let Op::Change(edits) = op {
            let edits = edits.iter_mut();
            edits.for_each(|edited| edited.content = edited.content.map(content));
        }
    }
    ops
}

fn ops(gentle: bool) -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(gentle), 1..40)
}

fn protocol() -> impl Strategy<Value = Protocol> {
    prop_oneof![Just(Protocol::Sotw), Just(Protocol::Delta)]
}

fn style() -> impl Strategy<Value = Style> {
    prop_oneof![Just(Style::Envoy), Just(Style::ByName)]
}

/// Client and server on one aggregated stream, or on a stream per type.
fn converges(style: Style, protocol: Protocol, aggregated: bool, tight: bool, ops: &[Op]) {
    let mut link = Link::new(style, protocol, aggregated, false);
    if tight {
        link.split_above(TIGHT);
    }
    run(link, ops, true);
}

/// Make-before-break: no resource arrives before its dependencies, and none is removed while another refers to it.
fn keeps_order(protocol: Protocol, ops: &[Op]) {
    run(Link::new(Style::Envoy, protocol, true, true), ops, false);
}

/// The client NACKs as Envoy does: without applying all valid resources, and without naming the invalid ones. It gets
/// all valid ones.
fn converges_with_envoy(protocol: Protocol, aggregated: bool, ops: &[Op]) {
    let mut link = Link::new(Style::Envoy, protocol, aggregated, false);
    link.client.rejects = Rejects::AsEnvoy;
    run(link, ops, true);
}

proptest! {
    #![proptest_config(fixed_cases())]

    #[test]
    fn aggregated_stream_converges(
        style in style(), protocol in protocol(), tight in prop::bool::ANY, ops in ops(false),
    ) {
        converges(style, protocol, true, tight, &ops);
    }

    #[test]
    fn stream_per_type_converges(
        style in style(), protocol in protocol(), tight in prop::bool::ANY, ops in ops(false),
    ) {
        converges(style, protocol, false, tight, &ops);
    }

    #[test]
    fn s51_s52_dependencies_arrive_first_and_leave_last(protocol in protocol(), ops in ops(true)) {
        keeps_order(protocol, &ops);
    }

    #[test]
    fn valid_resources_arrive_whatever_envoy_nacks(
        protocol in protocol(), aggregated in prop::bool::ANY, ops in envoy_ops(),
    ) {
        converges_with_envoy(protocol, aggregated, &ops);
    }
}

proptest! {
    #![proptest_config(random_cases())]

    #[test]
    fn aggregated_stream_converges_random_seed(
        style in style(), protocol in protocol(), tight in prop::bool::ANY, ops in ops(false),
    ) {
        converges(style, protocol, true, tight, &ops);
    }

    #[test]
    fn stream_per_type_converges_random_seed(
        style in style(), protocol in protocol(), tight in prop::bool::ANY, ops in ops(false),
    ) {
        converges(style, protocol, false, tight, &ops);
    }

    #[test]
    fn s51_s52_dependencies_arrive_first_and_leave_last_random_seed(
        protocol in protocol(), ops in ops(true),
    ) {
        keeps_order(protocol, &ops);
    }

    #[test]
    fn valid_resources_arrive_whatever_envoy_nacks_random_seed(
        protocol in protocol(), aggregated in prop::bool::ANY, ops in envoy_ops(),
    ) {
        converges_with_envoy(protocol, aggregated, &ops);
    }
}
