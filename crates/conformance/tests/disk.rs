//! Runs every case on a database on disk, including the cases that need one.

use mainstay_conformance::World;

macro_rules! make {
    ($($area:ident :: $file:ident { $($case:ident,)* })*) => {
        $(mod $file {
            $(#[test]
            fn $case() {
                mainstay_conformance::$area::$file::$case(&mut super::World::disk());
            })*
        })*
    };
}

mainstay_conformance::every_case!(make);

mod records {
    use super::World;
    mainstay_conformance::every_record_case!(make);
}

mod runs {
    use super::World;
    mainstay_conformance::every_run_case!(make);
}

mod outbox {
    use super::World;
    mainstay_conformance::every_outbox_case!(make);
}

mod reopened {
    use super::World;
    mainstay_conformance::every_disk_case!(make);
}

mod reopened_runs {
    use super::World;
    mainstay_conformance::every_run_disk_case!(make);
}

mod reopened_outbox {
    use super::World;
    mainstay_conformance::every_outbox_disk_case!(make);
}

mod keyed {
    use super::World;
    mainstay_conformance::every_keyed_case!(make);
}

mod reopened_keyed {
    use super::World;
    mainstay_conformance::every_keyed_disk_case!(make);
}
