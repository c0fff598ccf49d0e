//! `saving LIBRARY VALUE`: saves a value below `data` by a library, marks the moment when that says that
//! it is saved, and ends at once: a destructor may sync more.

use std::{error::Error, fs, io::Write as _, process};

const FILE: &str = "data/f";
const DATABASE: &str = "data/db";

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let library = words.next().ok_or("saving LIBRARY VALUE")?;
    let value = words.next().ok_or("saving LIBRARY VALUE")?;
    let mark = || {
        let _ = fs::metadata("/zctrace/mark/commit");
    };
    match library.as_str() {
        "atomic-write-file" => {
            let mut file = atomic_write_file::AtomicWriteFile::open(FILE)?;
            file.write_all(value.as_bytes())?;
            file.commit()?;
            mark();
        }
        "tempfile" => {
            let mut file = tempfile::NamedTempFile::new_in("data")?;
            file.write_all(value.as_bytes())?;
            file.persist(FILE)?;
            mark();
        }
        "redb" => {
            let database = redb::Database::create(DATABASE)?;
            let write = database.begin_write()?;
            let table = redb::TableDefinition::<&str, &str>::new("t");
            write.open_table(table)?.insert("key", value.as_str())?;
            write.commit()?;
            mark();
            process::exit(0);
        }
        "sled" => {
            // Without its thread that syncs each half second, only `flush` decides.
            let config = sled::Config::default().path(DATABASE);
            let database = config.flush_every_ms(None).open()?;
            database.insert("key", value.as_str())?;
            database.flush()?;
            mark();
            process::exit(0);
        }
        "fjall" => {
            let database = fjall::Database::builder(DATABASE).open()?;
            let items = database.keyspace("t", fjall::KeyspaceCreateOptions::default)?;
            items.insert("key", value.as_str())?;
            database.persist(fjall::PersistMode::SyncAll)?;
            mark();
            process::exit(0);
        }
        other => return Err(format!("{other} is no library here").into()),
    }
    Ok(())
}
