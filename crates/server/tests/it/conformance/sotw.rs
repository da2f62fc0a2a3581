//! State of the world (SotW): S-1 … S-29.

use oxds_core::snapshot::Protocol;

use super::script::play;

async fn sotw(script: &str) {
    play(Protocol::Sotw, script).await;
}

#[tokio::test]
async fn s1_s2_s3_s4_s5_wildcard_gets_all_resources() {
    for resource_type in ["C", "L"] {
        let script = "serve C1=1 C2=1 C3=1; ask C; takes C1=1 C2=1 C3=1; silent; serve C1=2; takes C1=2 C2=1 C3=1; \
                      serve C4=1; takes C1=2 C2=1 C3=1 C4=1; serve -C2; takes C1=2 C3=1 C4=1; silent; \
                      serve -C1 -C3 -C4; takes C; silent";
        sotw(&script.replace('C', resource_type)).await;
    }
}

#[tokio::test]
async fn s6_named_clusters_and_listeners_are_sent_complete() {
    for resource_type in ["C", "L"] {
        let script = "serve C1=1 C2=1 C3=1 C4=1; ask C2 C4; takes C2=1 C4=1; serve C1=2; silent; serve C2=2; \
                      takes C2=2 C4=1; serve -C4; takes C2=2";
        sotw(&script.replace('C', resource_type)).await;
    }
}

#[tokio::test]
async fn s7_s8_s9_s10_s11_s12_other_types_are_sent_by_name() {
    for resource_type in ["E", "R"] {
        let script = "serve E1=1 E2=1 E3=1; ask E2 E9; takes E2=1; serve E1=2 E2=2; takes E2=2; serve E9=1; takes E9=1; \
                      ask E2 E3 E9; takes E3=1; ask E3; silent; serve E2=3; silent; ask E2 E3; takes E2=3; \
                      ask E; silent; serve E2=4 E3=2; silent";
        sotw(&script.replace('E', resource_type)).await;
    }
}

#[tokio::test]
async fn s9_s13_s14_legacy_wildcard_ends_when_names_are_given() {
    sotw(
        "serve C1=1 C2=1; ask C; takes C1=1 C2=1; ask C* C1; takes C1=1 C2=1; serve C2=2; takes C1=1 C2=2; \
         ask C1; silent; serve C2=3; silent; serve C1=2; takes C1=2; ask C; silent; serve C1=3; silent",
    )
    .await;
    sotw("serve C1=1 C2=1; ask C; takes C1=1 C2=1; ask C1; takes C1=1; ask C; silent; serve C1=2; silent").await;
    sotw("serve E1=1; ask E; silent; serve E1=2; silent").await;
}

#[tokio::test]
async fn s15_s16_stale_nonce_updates_names_but_is_no_ack() {
    sotw(
        "serve E1=1 E3=1; ask E1; takes E1=1; serve E1=2; gets E1=2; stale E1; silent; serve E1=3; silent; \
         stale E1 E3; gets E1=3 E3=1; ack; silent",
    )
    .await;
}

#[tokio::test]
async fn s17_s18_s19_s20_nacked_version_is_not_sent_again() {
    for resource_type in ["C", "L"] {
        let script = "serve C1=1 C2=1; ask C; takes C1=1 C2=1; serve C1=bad; gets C1=bad C2=1; nack; silent; \
                      serve C2=2; takes C1=1 C2=2; silent; serve C1=3; takes C1=3 C2=2; silent";
        sotw(&script.replace('C', resource_type)).await;
    }
    sotw(
        "serve E1=1 E2=bad E3=1; ask E1; takes E1=1; ask E1 E2; gets E2=bad; nack E1 E2 E3; takes E3=1; silent; \
         serve E1=2; takes E1=2; serve E2=2; takes E2=2",
    )
    .await;
    // A NACK of the first response.
    sotw("serve C1=bad; ask C; gets C1=bad; nack; silent; serve C1=1; takes C1=1; silent").await;
}

#[tokio::test]
async fn s23_types_are_independent() {
    sotw(
        "serve C1=bad E1=1; ask C; gets C1=bad; nack; ask E1; takes E1=1; serve E1=2; takes E1=2; silent; \
         serve C1=1; takes C1=1; silent",
    )
    .await;
}

#[tokio::test]
async fn s24_s25_s29_wildcard_reconnect_at_same_version_is_silent() {
    sotw(
        "serve C1=1 E1=1; ask C; takes C1=1; ask E1; takes E1=1; again; ask C; silent; ask E1; takes E1=1; \
         serve C1=2; takes C1=2; again; serve C2=1; ask C; takes C1=2 C2=1; silent",
    )
    .await;
    // Another resource is added and removed in between.
    sotw("serve C1=1; ask C; takes C1=1; serve C2=1; serve -C2; again; ask C; silent").await;
}

#[tokio::test]
async fn s26_s27_empty_type_is_answered_after_first_load() {
    for resource_type in ["C", "L"] {
        let script = "ask C; serve C; takes C; silent; serve C1=1; takes C1=1";
        sotw(&script.replace('C', resource_type)).await;
    }
    sotw("serve C; ask E1; silent; serve E1=1; takes E1=1").await;
}
