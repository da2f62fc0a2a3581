//! Middleware in front of the pages: who may read them.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::discovery::Context;
use crate::security::HttpDenied;
use crate::server::{Peer, Shared};

/// Lets a request of the HTTP port pass if its client may read the pages.
pub(super) async fn admit(
    State(server): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let admitted = Peer::of(request.extensions()).map(|peer| {
        let client = peer.address.ip();
        server.http_security.admit(client, request.headers())
    });
    match admitted {
        Ok(Ok(())) => next.run(request).await,
        Ok(Err(denied)) => denial(&server, denied),
        Err(bug) => (StatusCode::INTERNAL_SERVER_ERROR, bug.to_string()).into_response(),
    }
}

/// Lets a request of the gRPC port pass if its client may inspect other clients (S-78): by a rule, or, without rules, by any
/// certificate, else as on the HTTP port.
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
            return denial(server, denied);
        }
    }
    next.run(request).await
}

fn denial(server: &Shared, denied: HttpDenied) -> Response {
    server.metrics.refused("authorization");
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
