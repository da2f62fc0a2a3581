//! What a release should look at (V-60): experimental elements with their age, deprecated ones with
//! their phase, packages that hold two versions of one, types that wait for the next major.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;

use crate::clock::{self, Deprecation, Schedule};
use crate::finding::{Finding, Location};
use crate::generate::{self, Reason};
use crate::ledger::Ledger;
use crate::maturity::{self, Maturity};
use crate::model::{File, FileId, Message, MessageId, Name, Place, Source, Tree};
use crate::rule::Profile;
use crate::rules;

/// What a release should look at.
#[derive(Debug)]
pub struct Audit {
    /// What is not stable, with its age.
    pub experimental: Vec<Experiment>,
    /// What is deprecated, with its phase.
    pub deprecated: Vec<Deprecation>,
    /// Packages that reach two versions of one.
    pub two_versions: Vec<Finding>,
    /// Types that wait for the next major, with the reason.
    pub pending: BTreeMap<Name, Reason>,
}

/// Something that is not stable, while what holds it is, or is another way.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// A package, the path of a file, or the full name of an element.
    pub element: String,
    /// In which way it is not stable.
    pub maturity: Maturity,
    /// Where it stands.
    pub location: Location,
    /// The first release that had it, and how many more had it up to today.
    pub age: Option<(String, u32)>,
}

/// The audit of a tree. What is not bumped needs an older tree too: see [`crate::bump`].
#[must_use]
pub fn audit(tree: &Tree, ledger: &Ledger, schedule: Schedule, today: Date) -> Audit {
    Audit {
        experimental: experiments(tree, ledger, today),
        deprecated: clock::clock(tree, ledger, schedule, today),
        two_versions: rules::odr(tree, Profile::Policy),
        pending: generate::pending(tree),
    }
}

/// Everything that is not stable in the files that are judged: packages, files, messages, enums,
/// services and fields, each only where it differs from what holds it.
#[must_use]
pub fn experiments(tree: &Tree, ledger: &Ledger, today: Date) -> Vec<Experiment> {
    let mut found = Found {
        tree,
        ledger,
        today,
        experiments: Vec::new(),
    };
    let mut packages = BTreeSet::new();
    for file in tree.targets() {
        found.file(file, packages.insert(&file.package));
    }
    let judged = |file: FileId| tree[file].target;
    let messages = tree.messages.iter().filter(|one| !one.map_entry);
    for message in messages.filter(|one| judged(one.file)) {
        found.message(message);
    }
    for one in tree.enums.iter().filter(|one| judged(one.file)) {
        let around = found.around(one.file, one.parent);
        let own = maturity::of_enum(tree, one);
        found.add(&one.name, around, own, (one.file, &one.source));
    }
    for service in tree.services.iter().filter(|one| judged(one.file)) {
        let around = found.around(service.file, None);
        let own = maturity::of_service(tree, service);
        found.add(&service.name, around, own, (service.file, &service.source));
    }
    found.experiments
}

struct Found<'t> {
    tree: &'t Tree,
    ledger: &'t Ledger,
    today: Date,
    experiments: Vec<Experiment>,
}

impl Found<'_> {
    fn file(&mut self, file: &File, first_of_package: bool) {
        let of_package = maturity::of_package(&file.package);
        let own = maturity::of_file(self.tree, file);
        let place = (file.id, &file.package_source);
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
            location: Location::of(self.tree, Place { file, span }),
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
