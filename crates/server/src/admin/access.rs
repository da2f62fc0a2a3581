//! Middleware in front of the pages: who may read them.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::calls::{Peer, Shared};
use crate::context::Context;
use crate::metrics::{DeniedBy, Metrics};
use crate::security::{HttpDenied, HttpSecurity};

/// Decides about requests of the HTTP port, and counts those that are denied.
#[derive(Debug, Clone)]
pub(super) struct PageAccess {
    security: HttpSecurity,
    metrics: Arc<Metrics>,
}

impl PageAccess {
    pub(super) fn new(server: &Shared) -> Self {
        Self {
            security: server.http_security.clone(),
            metrics: Arc::clone(&server.metrics),
        }
    }
}

/// Lets a request of the HTTP port pass if its client may read the pages.
pub(super) async fn admit(
    State(access): State<PageAccess>,
    request: Request,
    next: Next,
) -> Response {
    let admitted = Peer::of(request.extensions()).map(|peer| {
        let client = peer.address.ip();
        access.security.admit(client, request.headers())
    });
    match admitted {
        Ok(Ok(())) => next.run(request).await,
        Ok(Err(denied)) => denial(&access.metrics, denied),
        Err(bug) => (StatusCode::INTERNAL_SERVER_ERROR, bug.to_string()).into_response(),
    }
}

/// Lets a request of the gRPC port pass if its client may inspect other clients (S-78): by a rule, or, without rules,
/// by any certificate, else as on the HTTP port.
pub(super) async fn permit(
    State(context): State<Arc<Context>>,
    request: Request,
    next: Next,
) -> Response {
    let peer = match Peer::of(request.extensions()) {
        Ok(peer) => peer,
        Err(bug) => return (StatusCode::INTERNAL_SERVER_ERROR, bug.to_string()).into_response(),
    };
    let server = &context.server;
    if let Err(denied) = context.may_inspect(&peer) {
        return (StatusCode::FORBIDDEN, denied.to_string()).into_response();
    }
    if !server.security.is_authorizing() && peer.identity.is_none() {
        let (http, client) = (&server.http_security, peer.address.ip());
        if let Err(denied) = http.admit_beside_grpc(client, request.headers()) {
            return denial(&server.metrics, denied);
        }
    }
    next.run(request).await
}

fn denial(metrics: &Metrics, denied: HttpDenied) -> Response {
    metrics.denied(DeniedBy::Authorization);
    let text = format!("{denied}\n");
    match denied {
        HttpDenied::Remote | HttpDenied::ForeignHost => {
            (StatusCode::FORBIDDEN, text).into_response()
        }
        HttpDenied::NoToken => {
            // RFC 9110, section 11.6.1. Browsers ask their user for the password of the second one.
            let mut response = (StatusCode::UNAUTHORIZED, text).into_response();
            for challenge in [
                "Bearer realm=\"oxds\"",
                "Basic realm=\"oxds\", charset=\"UTF-8\"",
            ] {
                let challenge = HeaderValue::from_static(challenge);
                response
                    .headers_mut()
                    .append(header::WWW_AUTHENTICATE, challenge);
            }
            response
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use tower_service::Service as _;

    use super::*;
    use crate::calls::{Budget, Budgets, Limits};

    /// Requests a page behind the middleware, from this address and with these headers.
    async fn status_of(
        security: &HttpSecurity,
        client: &str,
        headers: &[(&str, &str)],
    ) -> StatusCode {
        let access = PageAccess {
            security: security.clone(),
            metrics: Arc::default(),
        };
        let mut router = Router::<()>::new()
            .route("/status.json", get(|| async { "ok" }))
            .route_layer(from_fn_with_state(access, admit));
        let limits = Limits::default();
        let peer = Peer {
            address: client.parse().unwrap(),
            identity: None,
            budgets: Budgets::of_connection(&Budget::of_server(&limits), &limits),
            moving: tokio_util::sync::CancellationToken::new(),
        };
        let mut request = Request::get("/status.json").extension(peer);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        router.call(request).await.unwrap().status()
    }

    /// Given a server without a setting, then a client of another machine gets no page, whatever host it names.
    #[tokio::test]
    async fn page_is_not_for_other_machines() {
        let security = HttpSecurity::default();
        for remote in [
            "10.0.0.7:4711",
            "[2001:db8::1]:4711",
            "[::ffff:10.0.0.7]:4711",
        ] {
            let status = status_of(&security, remote, &[("host", "localhost")]).await;
            assert_eq!(status, StatusCode::FORBIDDEN, "{remote}");
        }
        let local = status_of(&security, "127.0.0.1:4711", &[("host", "localhost")]).await;
        assert_eq!(local, StatusCode::OK);
    }

    /// Given an open server, then a client of another machine gets its pages, by whatever name.
    #[tokio::test]
    async fn page_of_an_open_server_is_for_all_machines() {
        let open = HttpSecurity::default().open();
        let status = status_of(&open, "10.0.0.7:4711", &[("host", "oxds.example")]).await;
        assert_eq!(status, StatusCode::OK);
    }

    /// Given a server with a token, then a client of another machine gets its pages with the token only.
    #[tokio::test]
    async fn page_with_a_token_is_for_all_machines() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "0123456789abcdef").unwrap();
        let security = HttpSecurity::default().token(&file).unwrap();
        let token = ("authorization", "Bearer 0123456789abcdef");
        for (headers, expected) in [
            (&[token][..], StatusCode::OK),
            (&[], StatusCode::UNAUTHORIZED),
        ] {
            let status = status_of(&security, "10.0.0.7:4711", headers).await;
            assert_eq!(status, expected, "{headers:?}");
        }
    }
}
