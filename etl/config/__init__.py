"""The job file: its sections (`sections`, `job`), how it is read (`load`), rules across fields (`rules`), secrets."""
