// Package document reads Lazaret's configuration file into a typed value and
// remembers on which line each key stands. It knows which keys exist, their
// types, their defaults and what replaced those of the older contract; it does
// not know what a value means. It runs in the Client CLI.
//
// Viper reads the file and applies the defaults. Alone it would lower the case
// of environment names, split keys at dots, convert types silently and drop
// misspelt keys, so its decoder here is a strict one on go-toml, and the tables
// whose keys are the user's reach viper as a type that it treats as a leaf. No
// other package of the project imports viper.
package document
