//! The messages of the descriptors, what became of each in the major, and their plans.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use prost_reflect::{DescriptorPool, MessageDescriptor};

use super::correction::Correction;
use super::lineage::Lineage;
use super::major::Major;
use super::matching::Renames;
use super::plan::{self, Action, Child, Plan, Slots};
use super::report::TreeError;
use super::unknown::UnknownFields;

/// Options of a translator.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Facts that the annotations lack.
    pub corrections: Cow<'static, [Correction]>,
    /// First segments of packages that have no message with a predecessor, and still belong to the API: a message of a
    /// newer major does not exist in an older one. Other APIs count their majors on their own.
    pub roots: &'static [&'static str],
    /// Policy for unknown fields of messages that become others.
    pub unknown_fields: UnknownFields,
}

/// All messages of the descriptors, with plans that are compiled when a message needs them.
pub(super) struct Catalog {
    major: Major,
    unknown_fields: UnknownFields,
    from: DescriptorPool,
    to: DescriptorPool,
    lineage: Lineage,
    renames: Renames,
    slots: Vec<Slot>,
    index: HashMap<Box<str>, usize>,
    /// Packages of which some message has a successor in the major.
    replaced: HashSet<Box<str>>,
    /// First segments of the packages of the API.
    roots: HashSet<Box<str>>,
}

/// A message of the descriptors, with its plans.
struct Slot {
    message: MessageDescriptor,
    chain: OnceLock<Option<Chain>>,
    changed: OnceLock<Plan>,
    kept: OnceLock<Plan>,
}

/// The way of a message to the major: the message itself, those in between, and the result.
struct Chain {
    messages: Vec<MessageDescriptor>,
    down: bool,
}

/// Fate of a message in the major.
pub(super) enum Becomes<'a> {
    /// Rewritten along a plan.
    Message(&'a Plan),
    /// Passed on unchanged: no descriptor knows it.
    Itself,
    /// The major has no such message.
    Nothing,
}

impl Catalog {
    /// Reads the lineage of all messages. Contradictory annotations are ignored.
    pub(super) fn read(
        from: DescriptorPool,
        to: DescriptorPool,
        major: Major,
        options: Options,
        errors: &mut Vec<TreeError>,
    ) -> Catalog {
        let pools: &[&DescriptorPool] = if from == to { &[&from] } else { &[&from, &to] };
        let lineage = Lineage::read(pools, &options.corrections, errors);
        let renames = Renames::of(pools, options.corrections);
        let mut index = HashMap::new();
        let mut slots = Vec::new();
        for message in pools.iter().flat_map(|pool| pool.all_messages()) {
            let name = message.full_name();
            if message.is_map_entry() || index.contains_key(name) {
                continue;
            }
            index.insert(name.into(), slots.len());
            slots.push(Slot {
                message,
                chain: OnceLock::new(),
                changed: OnceLock::new(),
                kept: OnceLock::new(),
            });
        }
        let own = lineage.successors().chain(options.roots.iter().copied());
        let roots = own.map(|name| root(name).into()).collect();
        let replaced = lineage.replaced(major);
        let replaced = replaced
            .filter_map(|name| Some(slots[*index.get(name)?].message.package_name().into()));
        Catalog {
            major,
            unknown_fields: options.unknown_fields,
            replaced: replaced.collect(),
            renames,
            lineage,
            slots,
            index,
            roots,
            from,
            to,
        }
    }

    /// Compiles the plans of all messages.
    ///
    /// # Errors
    /// The fields and enum values whose successor is not clear, with their files.
    pub(super) fn check(&self) -> Result<(), Vec<TreeError>> {
        let mut errors = Vec::new();
        for slot in &self.slots {
            if let Some(chain) = self.chain(slot).filter(|chain| chain.messages.len() > 1) {
                plan::change(
                    &chain.messages,
                    chain.down,
                    &self.renames,
                    self,
                    &mut errors,
                );
            }
        }
        errors.sort_unstable();
        errors.dedup();
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }

    /// Returns the major of the results.
    pub(super) fn major(&self) -> Major {
        self.major
    }

    /// Returns the full name of the message that this message becomes: its own if it is the same in the major. `None`
    /// if the descriptors do not know the message, or the major has no such message.
    pub(super) fn name(&self, message: &str) -> Option<&str> {
        let slot = &self.slots[*self.index.get(message)?];
        let chain = self.chain(slot)?;
        chain.messages.last().map(MessageDescriptor::full_name)
    }

    /// Returns the majors of the messages that have an earlier or later form.
    pub(super) fn majors(&self) -> Vec<Major> {
        let names = self.slots.iter().map(|slot| slot.message.package_name());
        let mut majors: Vec<Major> = names.filter_map(Major::of_package).collect();
        majors.sort_unstable();
        majors.dedup();
        majors
    }

    /// Returns the slots of the messages that become a message of the next major, without further ones in between.
    pub(super) fn pairs(&self) -> impl Iterator<Item = usize> {
        (0..self.slots.len()).filter(|slot| {
            let chain = self.chain(&self.slots[*slot]);
            chain.is_some_and(|chain| chain.messages.len() == 2 && !chain.down)
        })
    }

    /// Returns a message, and what becomes of it.
    pub(super) fn ends(&self, slot: usize) -> (MessageDescriptor, MessageDescriptor) {
        let slot = &self.slots[slot];
        let last = self.chain(slot).and_then(|chain| chain.messages.last());
        (slot.message.clone(), last.unwrap_or(&slot.message).clone())
    }

    pub(super) fn unknown_fields(&self) -> UnknownFields {
        self.unknown_fields
    }

    /// Returns the number of a field in the major.
    pub(super) fn field(&self, message: &str, number: u32) -> Option<u32> {
        let slot = *self.index.get(message)?;
        let plan = self.plan(Child { slot, same: false });
        if plan.same {
            let field = self.slots[slot].message.get_field(number)?;
            return Some(field.number());
        }
        let field = plan.field(number)?;
        (!matches!(field.action, Action::Drop(_))).then_some(field.to.number)
    }

    /// Returns whether a message of the API, by its full name or package, is newer than the major.
    pub(super) fn is_newer(&self, message: &str) -> bool {
        self.roots.contains(root(message)) && Major::of_package(message) > Some(self.major)
    }

    pub(super) fn name_of(&self, slot: usize) -> &str {
        self.slots[slot].message.full_name()
    }

    /// Returns whether a message of the major has a field with this proto or JSON name.
    pub(super) fn has_field(&self, message: &str, name: &str) -> bool {
        let message = self.to.get_message_by_name(message);
        message.is_some_and(|message| {
            let by_json = message.get_field_by_json_name(name);
            message.get_field_by_name(name).or(by_json).is_some()
        })
    }

    pub(super) fn becomes(&self, message: &str) -> Becomes<'_> {
        let Some(slot) = self.index.get(message) else {
            // A custom extension is not part of the API, so it is the same in all majors.
            return if self.is_newer(message) {
                Becomes::Nothing
            } else {
                Becomes::Itself
            };
        };
        match self.chain(&self.slots[*slot]) {
            Some(chain) => Becomes::Message(self.plan(Child {
                slot: *slot,
                same: chain.messages.len() == 1,
            })),
            None => Becomes::Nothing,
        }
    }

    pub(super) fn plan(&self, child: Child) -> &Plan {
        let slot = &self.slots[child.slot];
        let kept = || slot.kept.get_or_init(|| plan::keep(&slot.message, self));
        match self
            .chain(slot)
            .filter(|chain| chain.messages.len() > 1 && !child.same)
        {
            None => kept(),
            Some(chain) => slot.changed.get_or_init(|| {
                // Errors are those of the descriptors, which `check` reports. A field without a clear match is dropped.
                let errors = &mut Vec::new();
                plan::change(&chain.messages, chain.down, &self.renames, self, errors)
            }),
        }
    }

    fn chain<'s>(&self, slot: &'s Slot) -> Option<&'s Chain> {
        slot.chain
            .get_or_init(|| self.find_chain(&slot.message))
            .as_ref()
    }

    fn find_chain(&self, message: &MessageDescriptor) -> Option<Chain> {
        let down = self.is_newer(message.package_name());
        let mut messages = vec![message.clone()];
        loop {
            let last = &messages[messages.len() - 1];
            if down && !self.is_newer(last.package_name()) {
                break;
            }
            let name = if down {
                Some(self.lineage.previous(last.full_name())?)
            } else {
                self.lineage.next(last.full_name(), self.major)
            };
            let Some(name) = name else { break };
            messages.push(self.find_message(name)?);
        }
        let last = &messages[messages.len() - 1];
        let is_there = match (self.from == self.to, down) {
            (false, _) => self.to.get_message_by_name(last.full_name()).is_some(),
            (true, true) => true,
            // In a tree of several majors, a message that was removed has an upgraded package, and no successor.
            (true, false) => {
                let is_old = Major::of_package(last.package_name()) < Some(self.major);
                !(is_old && self.replaced.contains(last.package_name()))
            }
        };
        is_there.then_some(Chain { messages, down })
    }

    fn find_message(&self, name: &str) -> Option<MessageDescriptor> {
        let new = self.to.get_message_by_name(name);
        new.or_else(|| self.from.get_message_by_name(name))
    }
}

impl Slots for Catalog {
    fn find(&self, message: &str) -> Option<(usize, Option<String>)> {
        let slot = *self.index.get(message)?;
        Some((slot, self.name(message).map(str::to_owned)))
    }
}

fn root(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}
