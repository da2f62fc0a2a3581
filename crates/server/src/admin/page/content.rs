//! The content of a resource as YAML, without secrets.
//!
//! [`oxds_types::content`] decides which values are hidden, as for `oxds plan` and `oxds diff`.

use oxds_core::snapshot::Resource;
use oxds_types::content::read;
use oxds_types::discovery::Any;

/// Largest content that is shown, in bytes.
const MAX_CONTENT: usize = 256 << 10;

/// Returns the content for display.
pub(super) fn yaml(resource: &Resource) -> String {
    let value = resource.value();
    if value.len() > MAX_CONTENT {
        let bytes = value.len();
        return format!(
            "# Too large to be shown: {bytes} bytes, at most {MAX_CONTENT} are. `oxds get` prints it.\n"
        );
    }
    let any = Any {
        type_url: resource.resource_type().type_url().to_owned(),
        value,
    };
    let mut yaml = String::new();
    let content = read(&any).map_err(|error| error.to_string());
    let written = content.and_then(|content| {
        serde_saphyr::to_fmt_writer(&mut yaml, &content).map_err(|error| error.to_string())
    });
    match written {
        Ok(()) => oxds_types::text::lines(&yaml),
        Err(reason) => format!("# Cannot be shown: {}\n", oxds_types::text::line(&reason)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use oxds_types::ResourceType;
    use oxds_types::codec::{Format, Options, decode};
    use oxds_types::content::Content;

    use super::*;

    const TLS: &str = "envoy.extensions.transport_sockets.tls.v3";

    /// Returns the YAML of the page, and what `oxds plan` shows.
    fn shown(resource_type: &ResourceType, body: &str) -> (String, Content) {
        let (file, options) = (Path::new("a.yaml"), Options::default());
        let text = format!("'@type': {}\nname: a\n{body}\n", resource_type.type_url());
        let mut loaded = decode(file, Format::Yaml, text.as_bytes(), &options).expect("valid");
        let any = loaded.remove(0).any;
        let content = read(&any).expect("known");
        (
            yaml(&Resource::new(resource_type.clone(), "a", &any.value)),
            content,
        )
    }

    /// Given secrets of each sort, then the page and `oxds plan` show the same: nothing of them, and all that is
    /// public.
    #[test]
    fn page_and_plan_hide_the_same_secrets() {
        let context = format!(
            "'@type': type.googleapis.com/{TLS}.UpstreamTlsContext, common_tls_context: {{tls_certificates:"
        );
        let socket = |certificate: &str| {
            format!(
                "transport_socket: {{name: tls, typed_config: {{{context} [{{{certificate}}}]}}}}}}"
            )
        };
        let host =
            |fields: &str| format!("virtual_hosts: [{{name: PUBLIC, domains: ['*'], {fields}}}]");
        let filters = "type.googleapis.com/envoy.extensions.filters.http";
        let cases = [
            (ResourceType::SECRET, "generic_secret: {secret: {inline_string: HUSH}}".to_owned(), ""),
            (ResourceType::SECRET, "tls_certificate: {private_key: {inline_bytes: SFVTSA==}, password: {filename: HUSH}}".to_owned(), ""),
            (
                ResourceType::CLUSTER,
                socket("certificate_chain: {inline_string: PUBLIC}, private_key: {inline_bytes: SFVTSA==}"),
                "PUBLIC",
            ),
            (
                ResourceType::CLUSTER,
                socket("certificate_chain: {filename: c}, private_key: {filename: PUBLIC}, password: {inline_string: HUSH}"),
                "PUBLIC",
            ),
            (
                ResourceType::CLUSTER,
                "metadata: {filter_metadata: {app: {apiKey: HUSH, password: 4711, team: PUBLIC}}}".to_owned(),
                "PUBLIC",
            ),
            (
                ResourceType::ROUTE,
                host("request_headers_to_add: [{header: {key: Authorization, value: HUSH}}]"),
                "PUBLIC",
            ),
            (
                ResourceType::ROUTE,
                host("routes: [{match: {prefix: /, headers: [{name: cookie, string_match: {exact: HUSH}}]}, direct_response: {status: 200, body: {inline_string: PUBLIC-2}}}]"),
                "PUBLIC-2",
            ),
            (
                ResourceType::ROUTE,
                host(&format!("typed_per_filter_config: {{a: {{'@type': {filters}.api_key_auth.v3.ApiKeyAuthPerRoute, credentials: [{{key: HUSH, client: HUSH}}], allowed_clients: [PUBLIC-2]}}}}")),
                "PUBLIC-2",
            ),
        ];
        for (resource_type, body, public) in cases {
            let (page, plan) = shown(&resource_type, &body);
            for secret in ["HUSH", "SFVTSA", "4711"] {
                assert!(!page.contains(secret), "{body}: {page}");
            }
            assert!(
                page.contains("(not shown)") && page.contains(public),
                "{body}: {page}"
            );
            assert_eq!(
                page,
                serde_saphyr::to_string(&plan).expect("YAML"),
                "{body}"
            );
        }
    }

    /// Given a resource that nests as deep as one may, then the stack of a thread of the runtime holds its content.
    #[test]
    fn content_of_greatest_depth_is_shown() {
        let text = "{a: ".repeat(30) + "PUBLIC" + &"}".repeat(30);
        let body = format!("metadata: {{filter_metadata: {{app: {text}}}}}");
        let thread = std::thread::Builder::new().stack_size(2 << 20);
        let shown = thread.spawn(move || shown(&ResourceType::CLUSTER, &body).0);
        let page = shown.expect("thread").join().expect("no overflow");
        assert!(page.contains("PUBLIC"), "{page}");
    }
}
