//! Random changes, with a crash at a random operation of the disk.

use super::*;
use crate::durable::fake::Random;

/// Clusters that random changes are about.
const NAMES: usize = 6;

fn random_update(random: &mut Random) -> Update {
    let mut update = Update::default();
    for _ in 0..=random.below(3) {
        let name = format!("c{}", random.below(NAMES));
        // Large enough that checkpoints come after a few changes.
        let content = format!("{}{}", random.next(), "x".repeat(random.below(9_000)));
        let changes = match random.below(3) {
            0 => ChangeSet::default().remove(ResourceType::CLUSTER, name.as_str()),
            _ => ChangeSet::default().put(cluster(&name, &content)),
        };
        match random.below(4) {
            0 => update
                .groups
                .push(GroupUpdate::new("g", NodeMatcher::default(), changes)),
            1 if update.groups.is_empty() => update.groups.extend(unset("g").groups),
            _ => {
                update.changes.upserts.extend(changes.upserts);
                update.changes.removals.extend(changes.removals);
            }
        }
    }
    if random.below(3) == 0 {
        update.position = Some(random.next().to_le_bytes().into());
    }
    update
}

/// Given random changes, when the machine stops at any operation of the disk, then the state is complete, and no older
/// than the latest that was saved. From there on it goes on, over several crashes.
#[test]
fn g25_state_survives_a_crash_at_any_operation() {
    let (mut crashes, mut checkpoints, mut unfinished) = (0, 0, 0);
    for seed in 0..100 {
        let mut random = Random(seed);
        let mut state = Fixture::new();
        state.disk.fail_from(random.below(120));
        // The saved states from the latest durable one on.
        let mut possible = vec![text(&state.now)];
        for _ in 0..60 {
            let update = random_update(&mut random);
            let result = state.save(&update);
            match result {
                Ok(_) => possible = vec![text(&state.now)],
                Err(_) => possible.push(text(&state.now)),
            }
            if result.is_ok() && random.below(40) > 0 {
                continue;
            }
            crashes += 1;
            checkpoints += state.disk.work().created;
            let disk = state.disk.crash(random.next());
            let read =
                load(&disk).map(|read| read.unwrap_or_else(|error| panic!("{seed}: {error}")));
            unfinished += usize::from(read.as_ref().is_some_and(|read| read.unfinished > 0));
            let found = read.map_or_else(LastGood::default, |read| read.last_good);
            assert!(possible.contains(&text(&found)), "{seed}");
            disk.fail_from(random.below(120));
            state = Fixture::on(disk);
            possible = vec![text(&state.now)];
        }
    }
    assert!(
        crashes > 100 && checkpoints > 100 && unfinished > 10,
        "{crashes} {checkpoints} {unfinished}"
    );
}

/// Given a disk that fails for a while, again and again, then each save that succeeds has all changes until then.
#[test]
fn g25_save_after_errors_has_all_changes() {
    for seed in 0..50 {
        let mut random = Random(seed);
        let mut state = Fixture::new();
        let mut unsaved = Changes::default();
        let mut failed = 0;
        for _ in 0..40 {
            match random.below(4) {
                0 => state.disk.fail(Some(std::io::ErrorKind::StorageFull)),
                1 => state.disk.fail_to_create(),
                _ => state.disk.fail(None),
            }
            let changes = state.apply(&random_update(&mut random));
            unsaved.add(changes);
            match state.file.save(&state.now, &unsaved) {
                Ok(_) => {
                    unsaved = Changes::default();
                    state.assert_saved();
                }
                Err(_) => failed += 1,
            }
        }
        assert!(failed > 0);
        state.disk.fail(None);
        state.file.save(&state.now, &unsaved).unwrap();
        state.assert_saved();
    }
}
