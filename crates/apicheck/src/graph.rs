//! Dependencies between packages: through types of fields and methods and through extensions. An
//! unused import does not count.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::model::{FileId, Kind, MessageId, Name, Source, Tree};
use crate::package::PackageName;

/// Use of a type that another file declares.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Use<'t> {
    /// File with the use.
    pub from: FileId,
    /// File with the declaration.
    pub to: FileId,
    /// The using field or method as owner and short name, or the using extension.
    site: (&'t Name, Option<&'t Name>),
    /// Full name of the used type.
    pub used: &'t Name,
    /// Source position of the use.
    pub source: &'t Source,
}

impl Use<'_> {
    /// Returns the full name of the using element.
    #[must_use]
    pub fn element(&self) -> String {
        match self.site {
            (owner, Some(name)) => format!("{owner}.{name}"),
            (name, None) => name.to_string(),
        }
    }
}

/// Returns all uses that cross a file boundary, in the order of the tree.
#[must_use]
pub fn uses(tree: &Tree) -> Vec<Use<'_>> {
    let mut uses = Vec::new();
    let mut add = |from, site, kind: Kind, source| {
        let (to, used) = match kind {
            Kind::Message(id) | Kind::Group(id) => (tree[id].file, &tree[id].name),
            Kind::Enum(id) => (tree[id].file, &tree[id].name),
            Kind::Scalar(_) => return,
        };
        if to != from {
            uses.push(Use {
                from,
                to,
                site,
                used,
                source,
            });
        }
    };
    for message in tree.messages.iter().filter(|message| !message.map_entry) {
        for field in &message.fields {
            let kind = tree
                .map_entry(field)
                .map_or(field.kind, |(_, value)| value.kind);
            add(
                message.file,
                (&message.name, Some(&field.name)),
                kind,
                &field.source,
            );
        }
    }
    for service in &tree.services {
        for method in &service.methods {
            let site = (&service.name, Some(&method.name));
            let message = |id: MessageId| Kind::Message(id);
            add(service.file, site, message(method.input), &method.source);
            if method.output != method.input {
                add(service.file, site, message(method.output), &method.source);
            }
        }
    }
    for extension in &tree.extensions {
        let site = (&extension.name, None);
        add(
            extension.file,
            site,
            extension.field.kind,
            &extension.field.source,
        );
    }
    uses
}

/// Packages of a tree and the dependencies between them.
#[derive(Debug)]
pub struct Graph<'t> {
    /// Tree of the packages.
    pub tree: &'t Tree,
    /// All packages, sorted by name.
    pub packages: Vec<PackageNode<'t>>,
}

/// Package and the packages that it uses.
#[derive(Debug)]
#[non_exhaustive]
pub struct PackageNode<'t> {
    /// Name of the package.
    pub name: PackageName<'t>,
    /// First target file, or first file if none is a target.
    pub file: FileId,
    /// Whether at least one file is a target.
    pub target: bool,
    /// Indexes of the used packages, each with the first use.
    pub uses: BTreeMap<usize, Use<'t>>,
}

impl<'t> Graph<'t> {
    /// Builds the graph of a tree.
    #[must_use]
    pub fn of(tree: &'t Tree) -> Self {
        Self::with(tree, &uses(tree))
    }

    /// Builds the graph of a tree from its known uses.
    #[must_use]
    pub fn with(tree: &'t Tree, uses: &[Use<'t>]) -> Self {
        let mut by_name: BTreeMap<&'t str, (FileId, bool)> = BTreeMap::new();
        for file in &tree.files {
            let entry = by_name
                .entry(&file.package)
                .or_insert((file.id, file.target));
            if file.target && !entry.1 {
                *entry = (file.id, true);
            }
        }
        let indexes: HashMap<&str, usize> = by_name.keys().copied().zip(0..).collect();
        let mut packages: Vec<_> = by_name
            .into_iter()
            .map(|(name, (file, target))| PackageNode {
                name: PackageName::of(name),
                file,
                target,
                uses: BTreeMap::new(),
            })
            .collect();
        for one in uses {
            let index = |file: FileId| indexes.get(&*tree[file].package).copied();
            if let (Some(from), Some(to)) = (index(one.from), index(one.to))
                && from != to
            {
                packages[from].uses.entry(to).or_insert_with(|| one.clone());
            }
        }
        Graph { tree, packages }
    }

    /// Returns, for each package that `start` reaches, its predecessor on a shortest path; `start`
    /// has itself. A path does not continue from a package for which `through` returns false.
    #[must_use]
    pub fn reach(&self, start: usize, through: impl Fn(usize) -> bool) -> BTreeMap<usize, usize> {
        let mut before = BTreeMap::from([(start, start)]);
        let mut queue = VecDeque::from([start]);
        while let Some(at) = queue.pop_front() {
            if at != start && !through(at) {
                continue;
            }
            for &next in self.packages[at].uses.keys() {
                before.entry(next).or_insert_with(|| {
                    queue.push_back(next);
                    at
                });
            }
        }
        before
    }

    /// Formats the path to `end` that [`reach`](Self::reach) found: `a.v1 -> b.v2 -> c.v1alpha`.
    #[must_use]
    pub fn path(&self, before: &BTreeMap<usize, usize>, end: usize) -> String {
        let steps = std::iter::successors(Some(end), |at| {
            before.get(at).copied().filter(|before| before != at)
        });
        let mut names: Vec<_> = steps.map(|at| self.packages[at].name.full).collect();
        names.reverse();
        names.join(" -> ")
    }

    /// Returns one cycle of each group of packages that depend on each other, in a stable order.
    #[must_use]
    pub fn cycles(&self) -> Vec<Vec<usize>> {
        let mut seen = vec![false; self.packages.len()];
        let mut cycles = Vec::new();
        for start in self.sorted().1 {
            if seen[start] {
                continue;
            }
            let before = self.reach(start, |_| true);
            let back = before
                .keys()
                .find(|at| self.packages[**at].uses.contains_key(&start));
            let Some(&last) = back else { continue };
            let steps = std::iter::successors(Some(last), |at| {
                before.get(at).copied().filter(|before| before != at)
            });
            let mut cycle: Vec<_> = steps.collect();
            cycle.reverse();
            for &at in before.keys() {
                seen[at] = seen[at] || self.reach(at, |_| true).contains_key(&start);
            }
            cycles.push(cycle);
        }
        cycles
    }

    /// Returns the length of the longest dependency chain. Packages in cycles do not count.
    #[must_use]
    pub fn depth(&self) -> usize {
        let (order, _) = self.sorted();
        let mut depths = vec![0; self.packages.len()];
        for at in order {
            let below = self.packages[at].uses.keys().map(|used| depths[*used] + 1);
            depths[at] = below.max().unwrap_or(0);
        }
        depths.into_iter().max().unwrap_or(0)
    }

    /// Returns the packages in dependency order, and the rest: packages in a cycle or with a
    /// dependency on one.
    fn sorted(&self) -> (Vec<usize>, Vec<usize>) {
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); self.packages.len()];
        let mut open: Vec<usize> = Vec::with_capacity(self.packages.len());
        for (at, package) in self.packages.iter().enumerate() {
            open.push(package.uses.len());
            for &used in package.uses.keys() {
                users[used].push(at);
            }
        }
        let mut order: Vec<_> = (0..open.len()).filter(|at| open[*at] == 0).collect();
        let mut next = 0;
        while let Some(&at) = order.get(next) {
            next += 1;
            for &user in &users[at] {
                open[user] -= 1;
                if open[user] == 0 {
                    order.push(user);
                }
            }
        }
        let left = (0..open.len()).filter(|at| open[*at] > 0).collect();
        (order, left)
    }
}
