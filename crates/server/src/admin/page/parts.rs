//! Parts that several views share: times, states, names, navigation between pages.

use std::time::Duration;

use maud::{Markup, html};
use oxds_types::text;

use super::url::url;

/// Characters of a text of a client that a table shows.
const MAX_TEXT: usize = 300;

/// Returns a text from outside for display: control characters and those that deceive the reader are escaped, and a
/// long text is cut. The template escapes HTML.
pub(super) fn shown(text: &str) -> String {
    let line = text::line(text);
    match line.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.into_owned(),
    }
}

/// Returns a duration in one unit, rounded down: `12 s`, `3 min`, `4 h`, `2 d`.
pub(super) fn ago(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A time since something, which the script of the page keeps counting.
pub(super) fn age(seconds: f64) -> Markup {
    let duration = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    html! { span.age data-age=(duration.as_secs()) { (ago(duration)) } }
}

/// State of a client or of a type, as a label with a colour and a text.
pub(super) fn state(state: &str) -> Markup {
    let (class, text) = match state {
        "SYNCED" => ("ok", "in sync"),
        "NACKED" => ("bad", "NACKed"),
        "NOT_SENT" => ("wait", "not sent"),
        _ => ("wait", "pending"),
    };
    html! { span.badge.(class) { (text) } }
}

/// A link to a resource.
pub(super) fn resource_link(resource_type: &str, name: &str, group: &str) -> Markup {
    let href = url(
        "/resource",
        &[("type", resource_type), ("group", group), ("name", name)],
    );
    html! { a.name href=(href) { (shown(name)) } }
}

/// The place of a finding or of a resource: `file:line:column`.
pub(super) fn place(file: &str, line: Option<u32>, column: Option<u32>) -> Markup {
    let numbers = [line, column].into_iter().flatten();
    let numbers: String = numbers.map(|number| format!(":{number}")).collect();
    html! { code { (shown(file)) (numbers) } }
}

/// Returns `1 client`, `2 clients`.
pub(super) fn count(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    }
}

/// Links to the pages of a list.
pub(super) fn pager(
    path: &str,
    parameters: &[(&str, &str)],
    page: usize,
    per_page: usize,
    total: usize,
) -> Markup {
    let pages = total.div_ceil(per_page).max(1);
    let to = |page: usize| {
        let page = page.to_string();
        let mut parameters = parameters.to_vec();
        parameters.push(("page", &page));
        url(path, &parameters)
    };
    let from = (page * per_page).min(total);
    let until = (from + per_page).min(total);
    html! {
        nav.pager aria-label="Pages" {
            @if total > 0 && from < until { span { (from + 1) "–" (until) " of " (total) } }
            @if page > 0 { a rel="prev" href=(to(page.min(pages))) { "Previous" } }
            @if page + 1 < pages { a rel="next" href=(to(page + 2)) { "Next" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_shows_durations_in_one_unit() {
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (61, "1 min"),
            (3600, "1 h"),
            (172_800, "2 d"),
        ] {
            assert_eq!(ago(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn page_text_of_clients_is_escaped_and_bounded() {
        let shown_text = shown("a\u{202e}b\n<script>");
        assert!(!shown_text.contains(['\u{202e}', '\n']), "{shown_text:?}");
        assert_eq!(shown(&"ü".repeat(1000)).chars().count(), MAX_TEXT + 1);
        let link = resource_link("cds", "<script>alert(1)</script>\"", "").into_string();
        assert!(!link.contains("<script"), "{link}");
        assert_eq!(link.matches('"').count(), 4, "{link}");
    }

    #[test]
    fn page_links_lead_to_the_neighbours() {
        let of = |page, total| pager("/clients", &[("q", "a b")], page, 100, total).into_string();
        assert!(!of(0, 100).contains("href"));
        assert!(of(0, 101).contains("/clients?q=a%20b&amp;page=2"));
        assert!(of(1, 101).contains("101–101 of 101"));
        assert!(of(1, 101).contains("page=1") && !of(1, 101).contains("rel=\"next\""));
        assert!(of(usize::MAX / 1000, 5).contains("rel=\"prev\""));
    }
}
