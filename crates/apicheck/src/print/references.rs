//! References in comments to moved elements: `:ref:`Cluster
//! <envoy_v3_api_msg_config.cluster.v3.Cluster>``.
//!
//! A label has the form `ROOT_VERSION_api_SORT_NAME`; the name lacks the root of the package. Older
//! labels have no version: `ROOT_api_SORT_NAME`, where the name may also lack `api.vN`. A
//! reference to an element that is not in the next major (a removed field) still points to the
//! previous major. Notes such as `[#next-major-version: …]` are not changed, because only a person
//! can act on them.

use std::collections::BTreeSet;

use crate::model::{Docs, Tree};
use crate::plan::Plan;

const MARK: &str = "_api_";

/// Updates references in comments according to a plan.
#[derive(Debug, Clone, Copy)]
pub(super) struct References<'a> {
    pub(super) tree: &'a Tree,
    pub(super) plan: &'a Plan,
}

impl References<'_> {
    /// Updates all comments of an element.
    pub(super) fn docs(self, docs: &Docs) -> Docs {
        let text = |text: &str| Box::from(self.text(text));
        Docs {
            detached: docs.detached.iter().map(|one| text(one)).collect(),
            leading: docs.leading.as_deref().map(text),
            trailing: docs.trailing.as_deref().map(text),
        }
    }

    /// Updates the references in one comment.
    pub(super) fn text(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        // A label stands in angle brackets or, without a title, in backquotes.
        while let Some(at) = rest.find(['<', '`']) {
            let (before, after) = rest.split_at(at + 1);
            out.push_str(before);
            let closing = if before.ends_with('<') { '>' } else { '`' };
            let end = after.find(['>', '<', '`', '\n']).unwrap_or(after.len());
            let (label, behind) = after.split_at(end);
            match self.label(label).filter(|_| behind.starts_with(closing)) {
                Some(moved) => out.push_str(&moved),
                None => out.push_str(label),
            }
            rest = behind;
        }
        out + rest
    }

    /// Returns the new label for a moved element, or `None` for any other label.
    fn label(self, label: &str) -> Option<String> {
        let (head, rest) = label.split_once(MARK)?;
        let (root, is_versioned) = match head.rsplit_once("_v") {
            Some((root, _)) => (root, true),
            None => (head, false),
        };
        for sort in ["msg", "field", "enum_value", "enum", "file"] {
            let name = rest
                .strip_prefix(sort)
                .and_then(|name| name.strip_prefix('_'));
            let Some(name) = name else { continue };
            let (root, name, version) = match sort {
                "file" => {
                    let (path, version) = self.file(name)?;
                    (root.to_owned(), path, version)
                }
                _ => {
                    let inside_root = [format!("{root}.{name}")];
                    let older = is_versioned.then(Vec::new);
                    let older = older.unwrap_or_else(|| self.below_api(root, name));
                    let mut names = inside_root.iter().chain(&older);
                    let (full, version) = names.find_map(|full| self.element(sort, full))?;
                    let (root, name) = full.split_once('.')?;
                    (root.to_owned(), name.to_owned(), version)
                }
            };
            let version = if is_versioned {
                format!("_{version}")
            } else {
                String::new()
            };
            return Some(format!("{root}{version}{MARK}{sort}_{name}"));
        }
        None
    }

    /// Returns the full names that a label without `api.vN` can mean: `envoy_api_msg_Cluster` is
    /// `envoy.api.v2.Cluster`.
    fn below_api(self, root: &str, name: &str) -> Vec<String> {
        let start = format!("{root}.api.v");
        let files = self.tree.targets();
        let packages: BTreeSet<&str> = files
            .map(|file| &*file.package)
            .filter(|package| package.starts_with(&start))
            .collect();
        let names = packages.into_iter();
        names.map(|package| format!("{package}.{name}")).collect()
    }

    /// Returns the new path of a file, and its new version.
    fn file(self, path: &str) -> Option<(String, String)> {
        let target = self.plan.target(self.tree.file(path)?.id)?;
        Some((target.path.clone(), target.version.1.clone()))
    }

    /// Returns the new full name of an element, and its new version.
    fn element(self, sort: &str, full: &str) -> Option<(String, String)> {
        let (tree, plan) = (self.tree, self.plan);
        let (owner, member) = match sort {
            "field" | "enum_value" => full.rsplit_once('.')?,
            _ => (full, ""),
        };
        if !self.is_kept(owner) {
            return None;
        }
        let (file, member) = match (sort, tree.message(owner), tree.enumeration(owner)) {
            ("msg", Some(message), _) => (message.file, None),
            ("enum", _, Some(of)) => (of.file, None),
            ("field", Some(message), _) => {
                let field = message.field_by_name(member)?;
                let kept = plan.keeps_field(message, field);
                (
                    message.file,
                    Some(kept.then(|| plan.field_name(message, field))?),
                )
            }
            ("enum_value", _, Some(of)) => {
                let value = of.values.iter().find(|value| &*value.name == member)?;
                let kept = plan.keeps_value(of, value);
                (of.file, Some(kept.then(|| plan.value_name(of, value))?))
            }
            _ => return None,
        };
        let version = plan.target(file)?.version.1.clone();
        let owner = plan.type_name(owner);
        let full = member.map_or(owner.to_owned(), |member| format!("{owner}.{member}"));
        Some((full, version))
    }

    /// Returns whether a type and all its enclosing messages are in the next major.
    fn is_kept(self, name: &str) -> bool {
        let (tree, plan) = (self.tree, self.plan);
        let parent = match (tree.message(name), tree.enumeration(name)) {
            (Some(message), _) if plan.keeps_message(message) => message.parent,
            (None, Some(of)) if plan.keeps_enum(of) => of.parent,
            _ => return false,
        };
        parent.is_none_or(|parent| self.is_kept(&tree[parent].name))
    }
}
