//! What Redis does as one step, as scripts; `common.lua` says what lies where.

use std::sync::LazyLock;

use redis::Script;

macro_rules! scripts {
    ($($name:ident = $file:literal),* $(,)?) => {$(
        pub(super) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(concat!(include_str!("common.lua"), include_str!($file))));
    )*};
}

scripts! {
    HELLO = "hello.lua",
    BEGIN = "begin.lua",
    LOOK = "look.lua",
    PUT = "put.lua",
    TAKE = "take.lua",
    RENAME = "rename.lua",
    SWEEP = "sweep.lua",
    TOLD = "told.lua",
    LIST = "list.lua",
    COUNT = "count.lua",
    TELLING = "telling.lua",
    ADD_COUNTS = "add_counts.lua",
    COUNTS = "counts.lua",
}
