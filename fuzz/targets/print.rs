//! A printed tree reads back as the same tree, and is printed as the same text again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oxds_apicheck::hash::{Hashes, VERSION_OPTION};
use oxds_apicheck::model::Tree;
use oxds_apicheck::plan::Plan;
use oxds_apicheck::print::Printer;

fuzz_target!(|text: &str| {
    let Ok(tree) = Tree::parse([("a.proto", text)]) else {
        return;
    };
    let printed = print(&tree);
    let again = match Tree::parse([("a.proto", printed.as_str())]) {
        Ok(again) => again,
        Err(mistakes) => panic!("{mistakes:?}\n{printed}"),
    };
    let hash = |tree: &Tree| {
        Hashes::of(tree, VERSION_OPTION)
            .file("a.proto")
            .map(|file| file.local)
    };
    assert_eq!(hash(&tree), hash(&again), "{printed}");
    assert_eq!(print(&again), printed);
});

fn print(tree: &Tree) -> String {
    let plan = Plan::default();
    let printer = Printer::new(tree, &plan);
    tree.file("a.proto")
        .map_or(String::new(), |file| printer.file(file))
}
