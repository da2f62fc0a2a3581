//! Incremental xDS (delta): S-30 … S-48.

use oxds_core::snapshot::Protocol;

use super::script::play;

async fn delta(script: &str) {
    play(Protocol::Delta, script).await;
}

#[tokio::test]
async fn s30_s31_s32_s33_wildcard_gets_changes() {
    for ask in ["ask C", "ask C*"] {
        let script = "serve C1=1 C2=1 C3=1; ask C; takes C1=1 C2=1 C3=1; silent; serve C1=2; takes C1=2; \
                      serve -C2; takes -C2; serve C2=1 C3=2; takes C2=1 C3=2; silent";
        delta(&script.replace("ask C", ask)).await;
        delta(&"serve C; ask C; takes C; silent; serve C1=1; takes C1=1".replace("ask C", ask))
            .await;
    }
}

#[tokio::test]
async fn s34_s35_s37_s38_names_are_subscribed_and_unsubscribed() {
    for resource_type in ["C", "E", "L", "R"] {
        let script = "serve E1=1 E2=1; ask E1 E9; takes E1=1 -E9; serve E9=1; takes E9=1; ask E1; takes E1=1; \
                      ask E2; takes E2=1; drop E2; silent; serve E2=2; silent; drop E7; silent; serve -E1; takes -E1; \
                      ask E1; takes -E1; serve E1=2; takes E1=2; silent";
        delta(&script.replace('E', resource_type)).await;
    }
}

#[tokio::test]
async fn s35_s36_s39_s40_s41_names_beside_a_wildcard() {
    delta(
        "serve C1=1 C2=1; ask C; takes C1=1 C2=1; ask C*; takes C1=1 C2=1; ask C1 C9; takes C1=1 -C9; drop C1; \
         takes C1=1; drop C9; takes -C9; silent",
    )
    .await;
    delta(
        "serve C1=1 C2=1; ask C; takes C1=1 C2=1; ask C1; takes C1=1; serve C2=2; takes C2=2; drop C*; silent; \
         serve C1=2 C2=3; takes C1=2; drop C1; silent; serve C1=3; silent",
    )
    .await;
    delta("serve C1=1; drop C*; silent; serve C1=2; silent").await;
}

#[tokio::test]
async fn s42_s43_client_reconnects_with_initial_versions() {
    delta(
        "serve C1=1 C2=1; ask C; takes C1=1 C2=1; again; serve C2=2 C3=1; ask C; takes C2=2 C3=1; silent; \
         serve C1=2; takes C1=2",
    )
    .await;
    delta(
        "serve E1=1 E2=1 E3=1; ask E1 E2 E3; takes E1=1 E2=1 E3=1; again; serve E2=2 -E3; ask E1 E2 E3; \
         takes E2=2 -E3; silent",
    )
    .await;
    // `initial_resource_versions` is not a subscription.
    delta("serve E1=1; ask E1; takes E1=1; again; serve E1=2; ask E; silent").await;
}

#[tokio::test]
async fn s44_s47_s48_stale_nonce_does_not_block_subscriptions() {
    delta(
        "serve E1=1 E2=1 E3=1; ask E1; takes E1=1; serve E1=2; gets E1=2; stale E2; takes E2=1; ask E3; takes E3=1; \
         stale E; silent; serve E1=3; takes E1=3; silent",
    )
    .await;
}

#[tokio::test]
async fn s45_s46_nacked_resource_is_sent_again_only_after_change() {
    for first in ["ask C", "ask C1 C2"] {
        let script = "serve C1=1 C2=1; ask C; takes C1=1 C2=1; serve C1=bad; gets C1=bad; nack C4; takes C4=1; silent; \
                      serve C2=2; takes C2=2; silent; serve C1=2; takes C1=2; silent";
        let script = script.replace("C4=1", "-C4").replace("ask C", first);
        delta(&script).await;
    }
    delta("serve E1=bad E4=1; ask E1; gets E1=bad; nack E4; takes E4=1; silent").await;
}
