//! Unstable elements of a tree, and their age (V-7, V-60).

use std::collections::BTreeSet;

use jiff::civil::Date;

use crate::finding::Location;
use crate::ledger::Ledger;
use crate::maturity::{self, Maturity};
use crate::model::{File, FileId, FileSpan, Message, MessageId, Source, Tree};

/// Unstable element inside a stable one, or inside one of another maturity.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Experiment {
    /// Package, path of a file, or full name of an element.
    pub element: String,
    /// Maturity of the element.
    pub maturity: Maturity,
    /// Location in the tree.
    pub location: Location,
    /// First release with the element, and the number of later releases up to today.
    pub age: Option<(String, u32)>,
}

/// Returns all unstable elements in the target files: packages, files, messages, enums, services
/// and fields. An element is listed only if its maturity differs from that of its parent.
#[must_use]
pub fn experiments(tree: &Tree, ledger: &Ledger, today: Date) -> Vec<Experiment> {
    let mut found = ExperimentFinder {
        tree,
        ledger,
        today,
        experiments: Vec::new(),
    };
    let mut packages = BTreeSet::new();
    for file in tree.targets() {
        found.file(file, packages.insert(&file.package));
    }
    let is_target = |file: FileId| tree[file].target;
    let messages = tree.messages.iter().filter(|one| !one.map_entry);
    for message in messages.filter(|one| is_target(one.file)) {
        found.message(message);
    }
    for one in tree.enums.iter().filter(|one| is_target(one.file)) {
        let around = found.around(one.file, one.parent);
        let own = maturity::of_enum(tree, one);
        found.add(&one.name, around, own, (one.file, &one.source));
    }
    for service in tree.services.iter().filter(|one| is_target(one.file)) {
        let around = found.around(service.file, None);
        let own = maturity::of_service(tree, service);
        found.add(&service.name, around, own, (service.file, &service.source));
    }
    found.experiments
}

/// Walk over a tree that collects unstable elements.
struct ExperimentFinder<'t> {
    tree: &'t Tree,
    ledger: &'t Ledger,
    today: Date,
    experiments: Vec<Experiment>,
}

impl ExperimentFinder<'_> {
    fn file(&mut self, file: &File, first_of_package: bool) {
        let of_package = maturity::of_package(&file.package);
        let own = maturity::of_file(self.tree, file);
        let place = (file.id, &file.sources.package);
        if first_of_package {
            self.add(&file.package, Maturity::Stable, of_package, place);
        }
        self.add(&file.path, of_package, own, place);
    }

    fn message(&mut self, message: &Message) {
        let own = maturity::of_message(self.tree, message);
        let around = self.around(message.file, message.parent);
        self.add(&message.name, around, own, (message.file, &message.source));
        for field in &message.fields {
            let of_field = maturity::of_field(self.tree, message, field);
            if of_field != own {
                let name = format!("{}.{}", message.name, field.name);
                self.add(&name, own, of_field, (message.file, &field.source));
            }
        }
    }

    fn around(&self, file: FileId, parent: Option<MessageId>) -> Maturity {
        match parent {
            Some(parent) => maturity::of_message(self.tree, &self.tree[parent]),
            None => maturity::of_file(self.tree, &self.tree[file]),
        }
    }

    fn add(
        &mut self,
        element: &str,
        around: Maturity,
        own: Maturity,
        (file, source): (FileId, &Source),
    ) {
        if own == around || own == Maturity::Stable {
            return;
        }
        let span = source.name.or(source.span);
        self.experiments.push(Experiment {
            element: element.to_owned(),
            maturity: own,
            location: Location::of(self.tree, FileSpan { file, span }),
            age: self.age(element),
        });
    }

    fn age(&self, element: &str) -> Option<(String, u32)> {
        let mut entries = self.ledger.experimental.iter();
        let entry = entries.find(|entry| entry.element == element)?;
        let since = self.ledger.release(&entry.since)?;
        let after = self.ledger.after(since);
        let made = after.filter(|release| release.date <= self.today).count();
        Some((entry.since.clone(), u32::try_from(made).unwrap_or(u32::MAX)))
    }
}
