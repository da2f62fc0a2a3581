//! Users and tokens (G-31).

use oxds_server::store::etcd::client::{Blame, EtcdClient, EtcdError, Reason, User};
use oxds_testkit::etcd::{Permission, ScriptedEtcd, User as Account};

use super::{connect_with, plain, put, read, watch};

/// An etcd with a user `replica`, who may read `/oxds/` and write `/oxds/x/`.
async fn etcd() -> ScriptedEtcd {
    let etcd = ScriptedEtcd::start().await.unwrap();
    let permission = |key: &str, end: &str, write| Permission {
        key: key.into(),
        range_end: end.into(),
        read: true,
        write,
    };
    let account = Account {
        password: "secret".to_owned(),
        permissions: vec![
            permission("/oxds/", "/oxds0", false),
            permission("/oxds/x/", "/oxds/x0", true),
        ],
        is_root: false,
    };
    etcd.set_user("replica", account);
    etcd
}

async fn connect_as(etcd: &ScriptedEtcd, password: &str) -> Result<EtcdClient, EtcdError> {
    let (_, options) = plain(&etcd.url());
    let user = User {
        name: "replica".to_owned(),
        password: password.to_owned(),
    };
    connect_with(&etcd.url(), &options.user(user)).await
}

#[tokio::test]
async fn g31_expired_token_is_renewed_once() {
    let etcd = etcd().await;
    let client = connect_as(&etcd, "secret").await.unwrap();
    client.put(put("/oxds/x/1", "1")).await.unwrap();
    assert_eq!(etcd.calls("Authenticate"), 1);

    etcd.expire_tokens();
    let before = etcd.revision();
    let calls = (0..8).map(|_| client.put(put("/oxds/x/1", "2")));
    for done in futures_util::future::join_all(calls).await {
        done.unwrap();
    }

    assert_eq!(etcd.revision(), before + 8);
    assert_eq!(
        etcd.calls("Authenticate"),
        2,
        "concurrent calls share the new token"
    );
}

#[tokio::test]
async fn g31_watch_survives_expiry_and_new_watch_renews() {
    for denies in [false, true] {
        let etcd = etcd().await;
        etcd.set_denies_expired_tokens(denies);
        let client = connect_as(&etcd, "secret").await.unwrap();
        let (mut running, _) = client.watch(watch("/oxds/", 0)).await.unwrap();

        etcd.expire_tokens();
        etcd.put("/oxds/a", "1");
        assert_eq!(running.next().await.unwrap().events.len(), 1);
        client.watch(watch("/oxds/", 0)).await.unwrap();

        assert_eq!(etcd.calls("Authenticate"), 2, "{denies}");
    }
}

#[tokio::test]
async fn g31_missing_permission_names_the_range() {
    let etcd = etcd().await;
    let client = connect_as(&etcd, "secret").await.unwrap();
    let wide = client.range(read("/")).await.unwrap_err();
    assert_eq!(wide.blame(), Blame::Operator);
    let text = wide.to_string();
    assert!(
        text.contains(r#"needs a role with READ on the keys from "/" to "0""#),
        "{text}"
    );
    let write = client.put(put("/oxds/a", "1")).await.unwrap_err();
    assert!(
        write.to_string().contains(r#"WRITE on the key "/oxds/a""#),
        "{write}"
    );
    let denied = client.watch(watch("/", 0)).await.unwrap_err();
    assert!(
        denied
            .to_string()
            .contains(r#"READ on the keys from "/" to "0""#),
        "{denied}"
    );
    assert!(!denied.is_outcome_unknown());
    // Only the denial of a watch may be an expired token.
    assert_eq!(etcd.calls("Authenticate"), 2);
}

#[tokio::test]
async fn g31_wrong_password_and_missing_user_are_reported() {
    let etcd = etcd().await;
    let wrong = connect_as(&etcd, "wrong").await.unwrap_err();
    assert_eq!(wrong.reason(), &Reason::WrongPassword("replica".to_owned()));
    let (_, options) = plain(&etcd.url());
    let none = connect_with(&etcd.url(), &options).await.unwrap_err();
    assert!(
        matches!(none.reason(), Reason::Unauthenticated(_)),
        "{none:?}"
    );
    assert!(!format!("{wrong:?} {wrong}").contains("secret"));
}

#[tokio::test]
async fn g31_user_is_ignored_without_authentication() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    let client = connect_as(&etcd, "secret").await.unwrap();
    client.put(put("a", "1")).await.unwrap();
}
