//! Names of routes, which the views of resources leave out.

/// Names of the routes of a route configuration, by virtual host and position.
#[derive(Debug, Clone, Default)]
pub(super) struct Labels<'a>(pub(super) Vec<Vec<&'a str>>);

impl Labels<'_> {
    /// Returns the name of a route; empty if it has none.
    pub(super) fn of(&self, host: usize, route: usize) -> String {
        let name = self.0.get(host).and_then(|routes| routes.get(route));
        name.copied().unwrap_or_default().to_owned()
    }
}
