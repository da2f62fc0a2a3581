//! Fields of routes that the views of resources leave out.

/// Labels of the routes of a route configuration, by virtual host and position.
#[derive(Debug, Clone, Default)]
pub(super) struct Labels<'a>(pub(super) Vec<Vec<Label<'a>>>);

/// Fields of a route.
#[derive(Debug, Clone, Copy)]
pub(super) struct Label<'a> {
    pub(super) name: &'a str,
    /// Whether a cluster specifier plugin chooses the cluster.
    pub(super) has_plugin: bool,
}

impl Labels<'_> {
    /// Returns the name of a route; empty if it has none.
    pub(super) fn of(&self, host: usize, route: usize) -> String {
        let label = self.get(host, route);
        label.map(|label| label.name).unwrap_or_default().to_owned()
    }

    /// Whether a cluster specifier plugin chooses the cluster of a route.
    pub(super) fn has_plugin(&self, host: usize, route: usize) -> bool {
        self.get(host, route).is_some_and(|label| label.has_plugin)
    }

    fn get(&self, host: usize, route: usize) -> Option<&Label<'_>> {
        self.0.get(host)?.get(route)
    }
}
