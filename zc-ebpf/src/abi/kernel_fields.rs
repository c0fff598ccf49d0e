//! The one list of the fields of kernel structs that zctrace reads.
//!
//! Rust cannot emit the relocations by which C programs find such fields, so user space looks up
//! their offsets in the kernel's BTF and passes them to the programs as [`KernelFields`]. The list
//! gives that struct, and for user space the groups of fields ([`GROUPS`]) with what to look up and
//! what happens to a kernel without a field.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// In [`KernelFields`]: this kernel has no such field.
pub const ABSENT: u32 = u32::MAX;

/// What to look up in the kernel's types for a field. Names are those of a struct and of the path
/// of fields within it: `file.f_path.mnt`.
#[cfg(feature = "user")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldPlace {
    /// The offset of a field.
    Offset(&'static str),
    /// The offset of the first field, if the kernel has the second one, too.
    OffsetIf(&'static str, &'static str),
    /// The size of a struct.
    Size(&'static str),
    /// The sum of two offsets: where the second field is in a struct that the first field holds as
    /// plain bytes.
    Sum(&'static str, &'static str),
    /// The distance from the second field to the first.
    Distance(&'static str, &'static str),
    /// Nothing: the programs do without the field.
    Absent,
}

/// A field of [`KernelFields`].
#[cfg(feature = "user")]
#[derive(Clone, Copy)]
pub struct Field {
    /// What to look up. The first place that the kernel has counts.
    pub places: &'static [FieldPlace],
    /// The field itself.
    pub of: fn(&mut KernelFields) -> &mut u32,
}

/// What happens to a kernel that lacks a field.
#[cfg(feature = "user")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The programs cannot run.
    Required,
    /// The whole group is absent. The text says what is unknown then, with a verb.
    All(&'static str),
}

/// Fields that are needed for the same purpose.
#[cfg(feature = "user")]
#[derive(Clone, Copy)]
pub struct FieldGroup {
    /// What happens to a kernel that lacks one of them.
    pub need: Need,
    /// The architecture that alone has the fields, as `std::env::consts::ARCH` names it; empty: all
    /// of them.
    pub only_on: &'static str,
    /// The fields.
    pub fields: &'static [Field],
}

macro_rules! kernel_fields {
    ($(
        $need:ident $(($unknown:literal))? $(on $arch:literal)? {
            $($(#[$about:meta])* $field:ident: [$($place:ident $(($($name:literal),+))?),+],)+
        }
    )+) => {
        /// Offsets in bytes of fields of the kernel's structs, found in its BTF by user space;
        /// [`ABSENT`] where a kernel has no such field.
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, Immutable, IntoBytes)]
        pub struct KernelFields {
            $($(
                #[doc = concat!($("`", stringify!($place $(($($name),+))?), "` ",)+)]
                ///
                $(#[$about])*
                pub $field: u32,
            )+)+
        }

        impl KernelFields {
            /// No field is known.
            pub const NONE: Self = Self { $($($field: ABSENT,)+)+ };
        }

        /// All fields of [`KernelFields`], in its order.
        #[cfg(feature = "user")]
        pub const GROUPS: &[FieldGroup] = &[$(
            FieldGroup {
                need: Need::$need $(($unknown))?,
                only_on: concat!("", $($arch)?),
                fields: &[$(
                    Field {
                        places: &[$(FieldPlace::$place $(($($name),+))?),+],
                        of: |fields| &mut fields.$field,
                    },
                )+],
            },
        )+];
    };
}

kernel_fields! {
    Required {
        task_state: [Offset("task_struct.__state"), Offset("task_struct.state")],
        /// Where the stack of the task in the kernel begins.
        task_stack: [Offset("task_struct.stack")],
        task_group_leader: [Offset("task_struct.group_leader")],
        task_real_parent: [Offset("task_struct.real_parent")],
        task_thread_pid: [Offset("task_struct.thread_pid")],
        pid_level: [Offset("pid.level")],
        /// An array of `upid`.
        pid_numbers: [Offset("pid.numbers")],
        /// The first field of `upid` is the number.
        upid_size: [Size("upid")],
        /// The signals that are pending for this task alone.
        task_signals: [Offset("task_struct.pending.signal")],
        task_flags: [Offset("task_struct.flags")],
        task_comm: [Offset("task_struct.comm")],
        task_utime: [Offset("task_struct.utime")],
        task_stime: [Offset("task_struct.stime")],
        task_runtime: [Offset("task_struct.se.sum_exec_runtime")],
        /// How long the task was ready to run and waited for a CPU. A kernel without
        /// `CONFIG_SCHED_INFO` does not measure it.
        task_run_delay: [Offset("task_struct.sched_info.run_delay"), Absent],
        task_nvcsw: [Offset("task_struct.nvcsw")],
        task_nivcsw: [Offset("task_struct.nivcsw")],
        task_min_flt: [Offset("task_struct.min_flt")],
        task_maj_flt: [Offset("task_struct.maj_flt")],
        task_mm: [Offset("task_struct.mm")],
        mm_arg_start: [Offset("mm_struct.arg_start")],
        mm_arg_end: [Offset("mm_struct.arg_end")],
        /// Where the code of the program begins.
        mm_start_code: [Offset("mm_struct.start_code")],
        /// Where the stack of the first thread begins.
        mm_start_stack: [Offset("mm_struct.start_stack")],
        binprm_filename: [Offset("linux_binprm.filename")],
        /// A `css_set`. A kernel without cgroups has none, nor the next ones.
        task_cgroups: [Offset("task_struct.cgroups"), Absent],
        /// Its `cgroup` of version 2.
        set_cgroup: [Offset("css_set.dfl_cgrp"), Absent],
        cgroup_level: [Offset("cgroup.level"), Absent],
        /// An array of pointers: the cgroups from the root to this one, since 6.1.
        cgroup_ancestors: [Offset("cgroup.ancestors"), Absent],
        cgroup_node: [Offset("cgroup.kn"), Absent],
        /// The inode number of its directory.
        node_id: [Offset("kernfs_node.id"), Absent],
    }
    Required on "x86_64" {
        /// Bit 1 (`TS_COMPAT`) marks a 32-bit call.
        task_compat_status: [Offset("task_struct.thread_info.status")],
    }
    Required on "aarch64" {
        /// The number of the call.
        registers_number: [Offset("pt_regs.syscallno")],
        /// The first argument, which is still there when the call returns.
        registers_first_argument: [Offset("pt_regs.orig_x0")],
    }
    // From a descriptor to its file.
    All("which files calls are about is") {
        task_files: [Offset("task_struct.files")],
        files_fdt: [Offset("files_struct.fdt")],
        fdt_max_fds: [Offset("fdtable.max_fds")],
        fdt_fd: [Offset("fdtable.fd")],
        file_inode: [Offset("file.f_inode")],
        file_mode: [Offset("file.f_mode")],
        file_flags: [Offset("file.f_flags")],
        file_private_data: [Offset("file.private_data")],
        inode_number: [Offset("inode.i_ino")],
        inode_generation: [Offset("inode.i_generation")],
        inode_mode: [Offset("inode.i_mode")],
        inode_size: [Offset("inode.i_size")],
        inode_sb: [Offset("inode.i_sb")],
        sb_device: [Offset("super_block.s_dev")],
        sb_magic: [Offset("super_block.s_magic")],
        sb_type: [Offset("super_block.s_type")],
        sb_subtype: [Offset("super_block.s_subtype")],
        type_name: [Offset("file_system_type.name")],
    }
    All("paths of files are") {
        file_mount: [Offset("file.f_path.mnt")],
        file_dentry: [Offset("file.f_path.dentry")],
        dentry_parent: [Offset("dentry.d_parent")],
        dentry_name: [Offset("dentry.d_name.name")],
        /// Null once the name was removed.
        dentry_hash: [Offset("dentry.d_hash.pprev")],
        mount_root: [Offset("vfsmount.mnt_root")],
        /// A `vfsmount`.
        mount_mnt: [Offset("mount.mnt")],
        mount_parent: [Offset("mount.mnt_parent")],
        mount_mountpoint: [Offset("mount.mnt_mountpoint")],
        task_fs: [Offset("task_struct.fs")],
        fs_root_mount: [Offset("fs_struct.root.mnt")],
        fs_root_dentry: [Offset("fs_struct.root.dentry")],
        /// A `path`, as that of a file.
        fs_working_mount: [Offset("fs_struct.pwd.mnt")],
        dentry_inode: [Offset("dentry.d_inode")],
    }
    All("the types, addresses and peers of sockets are") {
        socket_sk: [Offset("socket.sk")],
        sock_type: [Offset("sock.sk_type")],
        sock_protocol: [Offset("sock.sk_protocol")],
        sock_family: [Offset("sock.__sk_common.skc_family")],
        /// In the machine's byte order.
        sock_local_port: [Offset("sock.__sk_common.skc_num")],
        /// In network byte order.
        sock_peer_port: [Offset("sock.__sk_common.skc_dport")],
        sock_local: [Offset("sock.__sk_common.skc_rcv_saddr")],
        sock_peer: [Offset("sock.__sk_common.skc_daddr")],
        /// A kernel without IPv6 has none.
        sock_local_v6: [Offset("sock.__sk_common.skc_v6_rcv_saddr"), Absent],
        /// A kernel without IPv6 has none.
        sock_peer_v6: [Offset("sock.__sk_common.skc_v6_daddr"), Absent],
    }
    All("the peers of Unix sockets are") {
        unix_address: [Offset("unix_sock.addr")],
        unix_peer: [Offset("unix_sock.peer")],
        unix_address_length: [Offset("unix_address.len")],
        /// A `sockaddr_un`.
        unix_address_name: [Offset("unix_address.name")],
        sock_socket: [Offset("sock.sk_socket")],
        socket_inode: [Distance("socket_alloc.vfs_inode", "socket_alloc.socket")],
    }
    All("whether a write's buffer is a mapping of a file is") {
        vma_start: [Offset("vm_area_struct.vm_start")],
        vma_end: [Offset("vm_area_struct.vm_end")],
        vma_flags: [Offset("vm_area_struct.vm_flags")],
        vma_file: [Offset("vm_area_struct.vm_file")],
        /// A private mapping of a file has one since a page of it was changed.
        vma_anon: [Offset("vm_area_struct.anon_vma")],
        /// The page of the file that the mapping begins with.
        vma_page: [Offset("vm_area_struct.vm_pgoff")],
        inode_flags: [Offset("inode.i_flags")],
        mm_exe_file: [Offset("mm_struct.exe_file")],
        /// It changes with every change of the mappings. Without it (before 6.4) they are looked up
        /// each time.
        mm_changes: [Offset("mm_struct.mm_lock_seq"), Absent],
    }
    All("which descriptors a command leaves open is") {
        task_signal: [Offset("task_struct.signal")],
        /// How many threads of the process have not begun to exit.
        signal_live: [Offset("signal_struct.live")],
    }
    All("what io_uring operations move is") {
        request_file: [Offset("io_kiocb.file")],
        /// The ring of the request.
        request_ring: [Offset("io_kiocb.ctx")],
        /// 1 byte.
        request_opcode: [Offset("io_kiocb.opcode")],
        /// The lower bits are those of an `io_uring_sqe`.
        request_flags: [Offset("io_kiocb.flags")],
        request_result: [Offset("io_kiocb.cqe.res")],
        request_cqe_flags: [Offset("io_kiocb.cqe.flags")],
        /// An `io_uring_task`; before 6.13 the task itself.
        request_owner: [OffsetIf("io_kiocb.tctx", "io_uring_task.task"), Offset("io_kiocb.task")],
        /// Absent where the owner is the task itself.
        owner_task: [OffsetIf("io_uring_task.task", "io_kiocb.tctx"), Absent],
        /// From the beginning of the `io_kiocb`, as the next ones.
        splice_input: [Sum("io_kiocb.cmd", "io_splice.splice_fd_in")],
        splice_flags: [Sum("io_kiocb.cmd", "io_splice.flags")],
        /// The buffer of a read or write.
        rw_address: [Sum("io_kiocb.cmd", "io_rw.addr")],
        rw_length: [Sum("io_kiocb.cmd", "io_rw.len")],
    }
}
