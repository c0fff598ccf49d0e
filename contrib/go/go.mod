module zctrace

go 1.22
