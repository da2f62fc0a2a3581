//! Blame: the subject of a NACK, as far as its text and the response show.

use std::{collections::BTreeSet, mem, sync::Arc};

use super::NackText;
use crate::snapshot::Resource;

/// New content of a response.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub(crate) resources: Vec<Arc<Resource>>,
    /// Content that the client accepted before, and asked for again or needs again.
    pub(crate) again: Vec<Arc<Resource>>,
    /// Names of resources that the response removes, and that the client may have.
    pub(crate) removals: Vec<Arc<str>>,
    /// SotW: copies that the response repeats, as their removal waits. A text may name them, although the client
    /// accepted them before.
    pub(crate) held: Vec<Arc<Resource>>,
    /// The client had accepted all resources before.
    pub(crate) is_repeated: bool,
}

/// Parts of a NACKed response.
#[derive(Debug, Default)]
pub(crate) struct Blame {
    /// Whether the text names something.
    pub(crate) is_named: bool,
    /// The client had accepted everything before, so nothing else is left to test.
    pub(crate) is_repeated: bool,
    /// Invalid resources.
    pub(crate) bad: Vec<Arc<Resource>>,
    /// Resources of which at least one is invalid.
    pub(crate) suspects: Vec<Arc<Resource>>,
    /// Rejected removals.
    pub(crate) kept: Vec<Arc<str>>,
    /// Names of the rest.
    pub(crate) rest: Vec<Arc<str>>,
}

impl Blame {
    /// Blames what the text names; or else the only new resource, or several as suspects. Removals are blamed last:
    /// no client is known that rejects one.
    pub(crate) fn new(text: NackText<'_>, mut news: News) -> Self {
        let again = mem::take(&mut news.again);
        let all = news.resources.iter().chain(&news.held);
        let names = all.map(|one| &**one.name());
        let named = text.named(names.chain(news.removals.iter().map(|name| &**name)));
        let named: BTreeSet<Box<str>> = named.into_iter().map(Box::from).collect();
        let mut blame = Self {
            is_named: !named.is_empty(),
            is_repeated: news.is_repeated,
            ..Self::default()
        };
        match news.resources.len() {
            _ if blame.is_named => blame.divide(news, |name| named.contains(name)),
            0 => blame.kept = news.removals,
            1 => (blame.bad, blame.rest) = (news.resources, news.removals),
            _ => (blame.suspects, blame.rest) = (news.resources, news.removals),
        }
        blame
            .rest
            .extend(again.iter().map(|one| Arc::clone(one.name())));
        if blame.is_repeated {
            blame.rest.clear();
        }
        blame
    }

    fn divide(&mut self, news: News, is_bad: impl Fn(&str) -> bool) {
        let (bad, good) = news
            .resources
            .into_iter()
            .partition(|one| is_bad(one.name()));
        self.bad = bad;
        let held = news.held.into_iter().filter(|one| is_bad(one.name()));
        self.bad.extend(held);
        (self.kept, self.rest) = news.removals.into_iter().partition(|name| is_bad(name));
        let good: Vec<Arc<Resource>> = good;
        self.rest
            .extend(good.iter().map(|one| Arc::clone(one.name())));
    }

    /// Names of the resources and removals that are shown to be rejected.
    pub(crate) fn names(&self) -> BTreeSet<Arc<str>> {
        let bad = self.bad.iter().map(|one| one.name());
        bad.chain(&self.kept).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use oxds_types::ResourceType;

    use super::*;

    fn blame(text: &str, resources: &[&str], removals: &[&str]) -> [String; 4] {
        let resource = |name: &&str| Arc::new(Resource::new(ResourceType::ROUTE, *name, b"1"));
        let blame = Blame::new(
            NackText::new(text),
            News {
                resources: resources.iter().map(resource).collect(),
                removals: removals.iter().map(|&name| name.into()).collect(),
                ..News::default()
            },
        );
        let resources = |of: &[Arc<Resource>]| {
            let names: Vec<&str> = of.iter().map(|one| &**one.name()).collect();
            names.join(" ")
        };
        [
            resources(&blame.bad),
            resources(&blame.suspects),
            blame.kept.join(" "),
            blame.rest.join(" "),
        ]
    }

    #[test]
    fn named_resource_is_bad_and_the_rest_is_open() {
        assert_eq!(blame("b is bad", &["a", "b"], &["c"]), ["b", "", "", "c a"]);
        assert_eq!(blame("c stays", &["a", "b"], &["c"]), ["", "", "c", "a b"]);
    }

    #[test]
    fn without_a_name_all_new_resources_are_suspects() {
        assert_eq!(blame("no", &["a", "b"], &["c"]), ["", "a b", "", "c"]);
        assert_eq!(blame("no", &["a"], &["c"]), ["a", "", "", "c"]);
    }

    #[test]
    fn nack_of_removals_only_is_about_them() {
        assert_eq!(blame("no", &[], &["a", "b"]), ["", "", "a b", ""]);
    }
}
